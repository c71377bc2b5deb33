package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/internal/ref"
)

// Deltas are described in docs/format.md, "Delta".
const (
	deltaFormat     = "application/vnd.waybill.delta.v1+json"
	deltaFamily     = "application/vnd.waybill.delta."
	deltaAnnotation = "waybill.base"
	maxDelta        = 128 << 20 // some 100 bytes for a blob
	maxBases        = 10_000
)

// A Delta is what an archive leaves out because who gets it has it.
type Delta struct {
	Bases   []Base
	LeftOut []ocispec.Descriptor // by digest; without media types

	left map[digest.Digest]int64
}

// A Base is something that the receiver of a [Delta] has.
type Base struct {
	Name    string        `json:"name,omitempty"`
	Version string        `json:"version,omitempty"`
	Digest  digest.Digest `json:"digest"`
}

// String is what people call a base.
func (b Base) String() string {
	if b.Name == "" {
		return b.Digest.String()
	}
	return strings.TrimSpace(b.Name+" "+b.Version) + " (" + b.Digest.String() + ")"
}

// Size is how much is left out.
func (d *Delta) Size() Amount {
	var a Amount
	for _, desc := range d.LeftOut {
		a.add(desc)
	}
	return a
}

// String says that it is a delta and what it needs.
func (d *Delta) String() string { return "delta, needs " + d.Needs() }

// Needs names the bases.
func (d *Delta) Needs() string {
	const named = 3
	var all []string
	for _, b := range d.Bases[:min(len(d.Bases), named)] {
		all = append(all, b.String())
	}
	s := strings.Join(all, ", ")
	if more := len(d.Bases) - named; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// leaves says whether a blob is left out; false of no delta.
func (d *Delta) leaves(blob digest.Digest) bool {
	if d == nil {
		return false
	}
	_, ok := d.left[blob]
	return ok
}

// Leaves says whether a blob is left out; none is by a nil Delta.
func (d *Delta) Leaves(desc ocispec.Descriptor) bool { return d.leaves(desc.Digest) }

// deltaFile is the blob that lists what is left out.
type deltaFile struct {
	Format  string     `json:"format"`
	Bases   []Base     `json:"bases"`
	LeftOut []heldBlob `json:"leftOut"`
}

// heldBlob is a blob of a list.
type heldBlob struct {
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
}

func newDelta(bases []Base, left map[digest.Digest]int64) *Delta {
	d := &Delta{Bases: slices.Clone(bases), left: left}
	slices.SortFunc(d.Bases, func(a, b Base) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Digest, b.Digest))
	})
	d.Bases = slices.Compact(d.Bases)
	for _, digest := range slices.Sorted(maps.Keys(left)) {
		d.LeftOut = append(d.LeftOut, ocispec.Descriptor{MediaType: octetStream, Digest: digest, Size: left[digest]})
	}
	return d
}

func (d *Delta) encode() (ocispec.Descriptor, []byte, error) {
	file := deltaFile{Format: deltaFormat, Bases: d.Bases, LeftOut: []heldBlob{}}
	if file.Bases == nil {
		file.Bases = []Base{}
	}
	for _, desc := range d.LeftOut {
		file.LeftOut = append(file.LeftOut, heldBlob{desc.Digest, desc.Size})
	}
	data, err := json.Marshal(file)
	return content.NewDescriptorFromBytes(deltaFormat, data), data, err
}

// mark notes in an index.json that the archive is a delta.
func (d *Delta) mark(index ocispec.Index, desc ocispec.Descriptor) ocispec.Index {
	annotations := maps.Clone(index.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[deltaAnnotation] = desc.Digest.String()
	index.Annotations = annotations
	return index
}

// readDelta reads what a place says of being a delta; nil when it is none.
func (p *localPlace) readDelta() error {
	value, ok := p.index.Annotations[deltaAnnotation]
	if !ok {
		return nil
	}
	bad := func(reason string, err error) error {
		return &ContentError{Ref: p.place, Reason: "is a delta, and " + reason, Err: err}
	}
	if err := ref.CheckDigest(value); err != nil {
		return bad("its annotation "+deltaAnnotation+" is no digest", err)
	}
	list := digest.Digest(value)
	file, size, err := p.blobs.open(list)
	if err != nil {
		if set := setIn(p.blobs); set != nil && !set.atHand(list) && errors.Is(err, fs.ErrNotExist) {
			return nil // it is in a volume that is not there
		}
		return bad("the list of what is left out is not there", err)
	}
	if size > maxDelta {
		_ = file.Close()
		return bad(fmt.Sprintf("the list of what is left out is larger than %d bytes", maxDelta), nil)
	}
	rc, err := checked(file, ocispec.Descriptor{MediaType: deltaFormat, Digest: list, Size: size}, p.place)
	if err != nil {
		return err
	}
	defer rc.Close() // it was only read from
	data, err := io.ReadAll(rc)
	if err != nil {
		return err
	}
	if p.delta, err = parseDelta(data); err != nil {
		return bad(err.Error(), err)
	}
	return nil
}

func parseDelta(data []byte) (*Delta, error) {
	var file deltaFile
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("the list of what is left out is not JSON: %w", err)
	}
	switch {
	case file.Format != deltaFormat && strings.HasPrefix(file.Format, deltaFamily):
		return nil, fmt.Errorf("was made by a newer waybill (%s)", printable(file.Format))
	case file.Format != deltaFormat:
		return nil, fmt.Errorf("the list of what is left out has the format %q", printable(file.Format))
	case len(file.LeftOut) > maxCopyNodes || len(file.Bases) > maxBases:
		return nil, fmt.Errorf("the list of what is left out is longer than any is")
	}
	left := map[digest.Digest]int64{}
	for _, b := range file.LeftOut {
		if err := ref.CheckDigest(b.Digest.String()); err != nil {
			return nil, err
		}
		if b.Size < 0 {
			return nil, fmt.Errorf("%s has a size of %d", b.Digest, b.Size)
		}
		left[b.Digest] = b.Size
	}
	for i, b := range file.Bases {
		if err := ref.CheckDigest(b.Digest.String()); err != nil {
			return nil, err
		}
		file.Bases[i].Name, file.Bases[i].Version = printable(b.Name), printable(b.Version)
	}
	return newDelta(file.Bases, left), nil
}

// Delta says what an archive leaves out; nil when it is no delta.
func (s *Source) Delta() *Delta {
	if p, ok := s.place.(*localPlace); ok {
		return p.delta
	}
	return nil
}

// DeltaAt says what an archive or layout leaves out; nil when it is no delta, or a
// registry.
//
// Errors: those of [Client.Open].
func (c *Client) DeltaAt(l Location) (*Delta, error) {
	if l.Kind == Registry {
		return nil, nil
	}
	p, err := openLocal(l)
	if err != nil {
		return nil, err
	}
	return p.delta, p.Close()
}

// A DeltaError reports that what a delta leaves out is not there.
type DeltaError struct {
	Ref     string // the delta
	At      string // where it was looked for; empty: in the delta alone
	Needs   string // the bases
	Lacking []ocispec.Descriptor
}

func (e *DeltaError) Error() string {
	s := fmt.Sprintf("%s: delta, needs %s", e.Ref, e.Needs)
	if e.At == "" {
		return s
	}
	var size int64
	for _, desc := range e.Lacking {
		size += desc.Size
	}
	return fmt.Sprintf("%s, which is not at %s: %d blobs of %d bytes are not there, the first is %s", s, e.At, len(e.Lacking), size, e.Lacking[0].Digest)
}

// leftOutError says of a blob that it was left out.
func (p *localPlace) leftOutError(desc ocispec.Descriptor) error {
	return &DeltaError{Ref: p.place, Needs: p.delta.Needs(), Lacking: []ocispec.Descriptor{desc}}
}

// CheckBase asks a place for everything that a source leaves out and that it
// can't give itself. Nothing is written. A source that is no delta passes.
//
// Errors: *DeltaError with all that is not there, those of Exists.
func (s *Source) CheckBase(ctx context.Context, dst *Destination, concurrency int) error {
	d := s.Delta()
	if d == nil {
		return nil
	}
	lacks := make([]bool, len(d.LeftOut))
	err := each(ctx, concurrency, len(d.LeftOut), func(ctx context.Context, i int) error {
		desc := d.LeftOut[i]
		if there, err := s.Has(ctx, desc); there || err != nil {
			return err
		}
		there, err := dst.Exists(ctx, desc)
		if isContentProblem(err) {
			err = nil // it is there with another size: not there
		}
		lacks[i] = !there
		return err
	})
	if err != nil {
		return err
	}
	e := &DeltaError{Ref: s.place.name(), At: dst.target.name(), Needs: d.Needs()}
	for i, desc := range d.LeftOut {
		if lacks[i] {
			e.Lacking = append(e.Lacking, desc)
		}
	}
	if len(e.Lacking) > 0 {
		return e
	}
	return nil
}

// AddBase lets a source that is a delta read what it leaves out at another local
// place. The source closes it.
//
// Errors: *LocationError when either is in a registry.
func (s *Source) AddBase(base *Source) error {
	p, ok := s.place.(*localPlace)
	from, local := base.place.(*localPlace)
	if !ok || !local {
		return &LocationError{Input: base.Location.String(), Reason: "is a registry, from which a delta can't be completed; the base has to be at the destination, or an archive or a folder"}
	}
	p.blobs = layered{p.blobs, from.blobs}
	return nil
}

// Delta says what of a plan may be left out for who has all that is in holdings:
// every blob they have, but for what attachments consist of and the documents of
// a bundle. It is nil when that is nothing.
func (p *CopyPlan) Delta(ctx context.Context, holdings ...*Holdings) (*Delta, error) {
	keep := map[digest.Digest]bool{}
	left := map[digest.Digest]int64{}
	for key, n := range p.nodes {
		if !key.manifest {
			if size, ok := heldBy(holdings, n.desc.Digest); ok && size == n.desc.Size && n.depth == 0 {
				left[n.desc.Digest] = size
			}
			continue
		}
		data, err := p.manifestData(ctx, n)
		if err != nil {
			return nil, err
		}
		l, err := readLinks(data)
		if err != nil {
			return nil, &ContentError{Ref: n.src.place.name(), Digest: n.desc.Digest, Reason: "is no manifest", Err: err}
		}
		if groupOf(l, n.depth > 0) > groupTyped {
			continue
		}
		for _, blob := range l.blobs() {
			keep[blob.Digest] = true
		}
	}
	for d := range keep {
		delete(left, d)
	}
	var bases []Base
	for _, h := range holdings {
		bases = append(bases, h.Bases()...)
	}
	if len(left) == 0 {
		return nil, nil
	}
	return newDelta(bases, left), nil
}

func heldBy(all []*Holdings, d digest.Digest) (int64, bool) {
	for _, h := range all {
		if size, ok := h.blobs.find(d); ok {
			return size, true
		}
	}
	return 0, false
}

// Exists says of what a delta leaves out that it is there: who gets it has it.
func (t *archiveTarget) Exists(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	if t.delta.leaves(desc.Digest) {
		return true, nil
	}
	return t.staged.Exists(ctx, desc)
}

// plan is the whole archive, or what of it a delta has.
func (t *archiveTarget) plan(ctx context.Context) (*tarPlan, error) {
	if t.delta == nil {
		return planArchive(ctx, t.index(), t, t.place, t.findSupply)
	}
	c, err := t.contents(ctx)
	if err != nil {
		return nil, err
	}
	p := &tarPlan{}
	if err := errors.Join(p.addData(layoutFile, layoutFileBytes()), p.addData(indexFile, c.indexData)); err != nil {
		return nil, err
	}
	for _, b := range c.blobs {
		if data, ok := c.data[b.desc.Digest]; ok {
			err = p.addData(blobName(b.desc.Digest), data)
		} else {
			err = p.addBlob(b.desc, c.supplies[b.desc.Digest])
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}
