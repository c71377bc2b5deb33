package registry

import (
	"context"
	"errors"
	"io"
	"regexp"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"

	"waybill/internal/ref"
)

// target is what registry, archive and layout have in common for writing.
type target interface {
	oras.GraphTarget
	putManifest(ctx context.Context, desc ocispec.Descriptor, data []byte) error
	attach(ctx context.Context, subject ocispec.Descriptor, all []referrer) (missing map[digest.Digest]bool, err error)
	lacksTag(ctx context.Context, tag string) bool
	keep(ctx context.Context, desc ocispec.Descriptor) error
	name() string
	commit(ctx context.Context) error
	abort() error
}

// A Destination is a location that is being written to. It is an
// oras.GraphTarget, safe for use at the same time. Push what is below before
// what names it; [Destination.Tag] comes last; then [Destination.Commit].
type Destination struct {
	Location Location
	// Resume is told what becomes of what an interrupted write has left. Set it
	// before Commit.
	Resume ResumeHooks
	target target

	mu   sync.Mutex
	done bool
}

// Create opens a location for writing.
//
// In a registry nothing happens before the first Push, and a tag is there as
// soon as it is set. In a layout, which is made when it isn't there, blobs are
// written at once and names appear with Commit. An archive appears with Commit,
// whole, and replaces what was there under its name; [Client.Held] says what
// that is.
//
// Errors: *LocationError for a path where something else is, *BusyError.
func (c *Client) Create(_ context.Context, l Location) (*Destination, error) {
	return c.create(l, false)
}

// Update is Create for adding to what is there: an archive keeps what is in it.
func (c *Client) Update(_ context.Context, l Location) (*Destination, error) {
	return c.create(l, true)
}

func (c *Client) create(l Location, keep bool) (*Destination, error) {
	d := &Destination{Location: l}
	var err error
	switch l.Kind {
	case Registry:
		d.target = c.remote(l.Ref)
	case Layout:
		d.target, err = createLayout(l)
	default:
		if err = errors.Join(notVolume(l), notInVolumes(l, keep)); err == nil {
			d.target, err = createArchive(l, keep, &d.Resume)
		}
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Push writes content, checked against its descriptor on the way. Content that
// is there already is success.
func (d *Destination) Push(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	return d.target.Push(ctx, desc, r)
}

// Fetch gives back what was pushed, or was there before, checked like Source's.
func (d *Destination) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	return d.target.Fetch(ctx, desc)
}

// Exists says whether content is there with its size.
func (d *Destination) Exists(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	return d.target.Exists(ctx, desc)
}

// Resolve finds a tag or digest. A *NotFoundError, which is an
// errdef.ErrNotFound too, when there is none.
func (d *Destination) Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	return d.target.Resolve(ctx, reference)
}

// Predecessors lists the manifests that have desc as their subject.
func (d *Destination) Predecessors(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return d.target.Predecessors(ctx, desc)
}

// Tag gives a pushed manifest a name: a registry's tag, or the
// org.opencontainers.image.ref.name of its entry in index.json. The manifest's
// bytes stay as they are. Whether a tag may move is the caller's to decide.
func (d *Destination) Tag(ctx context.Context, desc ocispec.Descriptor, name string) error {
	if err := CheckTag(d.Location.Kind, name); err != nil {
		return err
	}
	return d.target.Tag(ctx, desc, name)
}

// Keep lists a pushed manifest without a name in an archive or layout, unless it
// has one: it is found by its digest. In a registry nothing is to be done.
func (d *Destination) Keep(ctx context.Context, desc ocispec.Descriptor) error {
	return d.target.keep(ctx, desc)
}

// CheckTag says, as a *TagError, whether name can be a tag in a registry, or a
// name in an archive or layout. It asks nobody.
func CheckTag(kind Kind, name string) error {
	if err := checkName(kind, name); err != nil {
		return &TagError{Tag: name, Err: err}
	}
	return nil
}

// Held lists what an archive or layout holds now, its roots with the names they
// have; nothing when there is no such place yet. A registry holds what its tags
// say, which [Destination.Resolve] tells one by one, and the list is empty.
//
// Errors: *LocationError for a path where something else is, *ContentError.
func (c *Client) Held(ctx context.Context, l Location) ([]ocispec.Descriptor, error) {
	if l.Kind == Registry || !exists(l.Path) || l.Kind == Layout && isFresh(l.Path) {
		return nil, nil
	}
	p, err := openLocal(l)
	if err != nil {
		return nil, notOurs(err, l)
	}
	held, err := roots(ctx, p.index, p)
	return held, errors.Join(err, p.Close())
}

// checkPlace refuses a local place that can be seen to be no destination, before
// anything is read for it.
func checkPlace(l Location) error {
	if l.Kind == Layout {
		return checkFolder(l)
	}
	if err := errors.Join(notVolume(l), CheckFile(l)); err != nil || !exists(l.Path) {
		return err
	}
	p, err := openArchive(l)
	if err != nil {
		return notOurs(err, l)
	}
	return p.Close()
}

// notOurs makes what stands in the way of writing a matter of the location: a
// file or folder that is something else is not overwritten.
func notOurs(err error, l Location) error {
	var content *ContentError
	if !errors.As(err, &content) {
		return err
	}
	reason := "is a file that is no archive, or a damaged one, and is left alone; remove it first, or name another"
	if l.Kind == Layout {
		reason = "is a folder with other things in it and is left alone; name an empty or a new folder"
	}
	return &LocationError{Input: placeName(l), Reason: reason, Err: err}
}

// localName is what can be typed after a #. The image specification's grammar
// for org.opencontainers.image.ref.name allows a little more.
var localName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,254}$`)

func checkName(kind Kind, name string) error {
	if kind == Registry {
		return ref.CheckTag(name)
	}
	if !localName.MatchString(name) {
		return errors.New("want letters, digits, and . _ : / + - after the first")
	}
	return nil
}

// Commit makes everything that was tagged visible, at once. After it, and after
// Abort, the destination is done with.
//
// An archive is written now: into FILE.partial, with FILE.partial.journal, and
// renamed when it is whole. What copies have promised is read from their sources,
// several blobs at once. When that fails, what is written stays for the next
// Commit of the same content to the same file.
//
// Errors: of an archive *UnfinishedError around the first cause when something is
// kept, *SpaceError and *FileSizeError before anything is written.
func (d *Destination) Commit(ctx context.Context) error {
	if !d.finish() {
		return nil
	}
	return d.target.commit(ctx)
}

// Abort gives up: of an archive nothing is left but what an interrupted Commit
// left before, of a layout blobs that no name
// leads to, in a registry what was pushed. It does nothing after Commit, so that
// it can be deferred.
func (d *Destination) Abort() error {
	if !d.finish() {
		return nil
	}
	return d.target.abort()
}

func (d *Destination) finish() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	first := !d.done
	d.done = true
	return first
}

var (
	_ oras.GraphTarget             = (*Destination)(nil)
	_ oras.ReadOnlyGraphTarget     = (*Source)(nil)
	_ content.ReadOnlyGraphStorage = (*Source)(nil)
)
