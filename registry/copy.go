package registry

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
)

// CopyOptions are the options of [Copy]. The zero value works. Hooks may run at
// the same time.
type CopyOptions struct {
	Concurrency int // transfers and look-ups at the same time; 0: 8

	// AnchorTags gives every manifest below the roots, and every referrer, a tag of
	// its own in a registry ([ref.AnchorTag]): there are some whose garbage collection
	// removes what only an index leads to.
	AnchorTags bool

	// WithoutAttachments leaves everything that hangs on the content where it is,
	// and does not look for it. [PlanCopy] decides.
	WithoutAttachments bool

	// Mounts knows what other repositories of the target's registry hold, from
	// copies before this one and at the same time. nil: nothing but the source.
	Mounts *Mounts

	// Ahead is a registry that the plan will be carried out for. Manifests that it
	// has are read there: that they are is known then, and the source isn't asked.
	// [PlanCopy] reads them; nil: the source is asked for all.
	Ahead *Destination

	// AssumeComplete takes an index or manifest that Ahead has for all that is below
	// it and hangs on that, and looks at none of it: what went missing there stays
	// missing. Of a root, what hangs on itself is still looked for. The plan is good
	// for Ahead alone. [PlanCopy] decides.
	AssumeComplete bool

	// Delta is what an archive will leave out, which [CopyPlan.Compare] counts as there.
	Delta *Delta

	OnPlanned    func(objects int, bytes int64)                       // once all that is to be there is known
	OnStart      func(desc ocispec.Descriptor, of string)             // before content is sent; of says what it is part of, for people
	OnBytes      func(n int)                                          // n bytes more of a blob were sent
	OnDone       func(desc ocispec.Descriptor, of string, sent int64) // content is there; sent says how much of it OnBytes has told
	OnAttachment func(Attachment)                                     // an attachment is at the target, in its form there
}

// A CopyResult says what [Copy] did, and what was found. Each digest counts once.
type CopyResult struct {
	Copied  Amount // sent
	Mounted Amount // taken over from another repository of the same registry
	Skipped Amount // there already
	Anchors int    // tags set for AnchorTags
	Assumed int    // manifests that were there and stand for all below them: AssumeComplete
	// Attachments are the signatures, attestations, lists of materials and other
	// manifests that hang on something copied, in order. All of them are at the
	// target.
	Attachments []Attachment
	// Undetermined are look-ups for attachments that gave no answer to rely on.
	Undetermined []Undetermined
	// LeftOut are layers that may not be given on, and were not: whoever needs
	// them fetches them from the addresses in the manifest. See [ForeignChoice].
	LeftOut []ocispec.Descriptor
}

// An Amount is a number of blobs and manifests and how large they are together.
type Amount struct {
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

func (a *Amount) add(desc ocispec.Descriptor) {
	a.Objects++
	a.Bytes += desc.Size
}

// The forms of an [Attachment].
const (
	FormTag      = "tag"      // under a tag made of the digest: cosign's .sig, .att, .sbom
	FormReferrer = "referrer" // by its subject: image specification, "Image Manifest"
)

// What became of an [Attachment].
const (
	AttachmentCopied = "copied" // it was not there
	AttachmentThere  = "there"  // nothing was to be done
	AttachmentUnited = "united" // its layers were added to those that were there
)

// An Attachment is a manifest that hangs on another one's digest.
type Attachment struct {
	Subject      digest.Digest `json:"subject"`
	Form         string        `json:"form"`
	Tag          string        `json:"tag,omitempty"` // of the tag form
	Digest       digest.Digest `json:"digest"`        // at the source
	ArtifactType string        `json:"artifactType,omitempty"`
	State        string        `json:"state"`

	predicate string // of a sigstore bundle that says
}

// What cosign writes on sigstore bundles, and which of them are signatures.
const (
	sigstoreBundlePrefix  = "application/vnd.dev.sigstore.bundle"
	predicateAnnotation   = "dev.sigstore.bundle.predicateType"
	predicateOfASignature = "https://sigstore.dev/cosign/sign/v1"
	signatureAnnotation   = "dev.cosignproject.cosign/signature"
)

// IsSignature says whether the attachment is one of cosign's signatures, as far
// as its tag or type tells.
func (a Attachment) IsSignature() bool {
	if a.Form == FormTag {
		return strings.HasSuffix(a.Tag, ".sig")
	}
	return strings.HasPrefix(a.ArtifactType, sigstoreBundlePrefix) && (a.predicate == "" || a.predicate == predicateOfASignature)
}

// An Undetermined is a look-up for attachments that did not tell whether there
// are some: the registry denied it, or what was listed is not there.
type Undetermined struct {
	Subject digest.Digest `json:"subject"`
	Of      string        `json:"of,omitempty"`     // what the subject is, for people
	Lookup  string        `json:"lookup"`           // "referrers", "tag sha256-….sig", "referrer sha256:…"
	Status  int           `json:"status,omitempty"` // 401 or 403 when it was denied
	Reason  string        `json:"reason"`
}

// A CopyError says which side of a copy failed, at which content and step.
type CopyError struct {
	Side   string        // "source" or "target"
	Ref    string        // the place
	Digest digest.Digest // of the content; may be empty
	Of     string        // what it is part of, for people; may be empty
	Step   string        // "reading", "looking for", "writing", "reading back", "attaching"
	Err    error         // the first cause
}

func (e *CopyError) Error() string {
	s := e.Side + ": " + e.Step
	if e.Digest != "" {
		s += " " + e.Digest.String()
	}
	if e.Of != "" {
		s += " (" + e.Of + ")"
	}
	return s + ": " + e.Err.Error()
}

func (e *CopyError) Unwrap() error { return e.Err }

// Copy brings roots, everything below them, and everything that hangs on any
// digest among it from a source to a destination, whatever kinds they are.
// Manifests are opaque bytes: the same digests are there afterwards.
//
// First all manifests are read, at the target where it has them. It is asked once
// for each object, and gets what it has not got: blobs, manifests from the leaves to the roots,
// then attachments, each in the form that the target supports, added to those
// that are there and replacing none. What was sent is read back. No tag of the
// roots is set, and a layout or archive is not committed: that is the caller's,
// who may want to look at the target first.
//
// Content that the source has not got, or not right, doesn't keep the rest from
// being copied; all of it is in the error, and a second run sends only what is
// missing. Any other failure ends the copy.
//
// Errors: *CopyError, several of them joined, around the errors of this package.
func Copy(ctx context.Context, src *Source, dst *Destination, roots []ocispec.Descriptor, opts CopyOptions) (CopyResult, error) {
	opts.Ahead = dst
	plan, err := PlanCopy(ctx, src, roots, opts)
	if err != nil {
		return CopyResult{}, err
	}
	return plan.To(ctx, dst, opts)
}

// A CopyPlan is everything that is to be at a target, known by digest and size
// before anything is written. It may be carried out for several targets.
type CopyPlan struct {
	roots        []*copyNode
	nodes        map[copyKey]*copyNode
	blobs        []*copyNode
	manifests    [][]*copyNode // in the order to push: each group needs those before it
	attachments  []plannedAttachment
	undetermined []Undetermined
	assumed      int
}

// Size is how many objects there are and how large they are together.
func (p *CopyPlan) Size() Amount {
	var a Amount
	for _, n := range p.nodes {
		if n.choice != ForeignOmit {
			a.add(n.desc)
		}
	}
	return a
}

// Undetermined are the look-ups for attachments that gave no answer to rely on.
func (p *CopyPlan) Undetermined() []Undetermined { return slices.Clone(p.undetermined) }

// copyKey tells blobs from manifests: registries keep them apart.
type copyKey struct {
	manifest bool
	digest   digest.Digest
}

func keyOf(desc ocispec.Descriptor) copyKey { return copyKey{isManifest(desc.MediaType), desc.Digest} }

// copyNode is one blob or manifest.
type copyNode struct {
	src    *Source
	desc   ocispec.Descriptor
	name   string    // what people call it or what it is part of; may be empty
	parent *copyNode // the first to name it
	depth  int       // 0: content; 1: hangs on content; 2: hangs on that
	height int       // of a manifest: 1 above its highest part
	parts  []*copyNode
	data   []byte // of a manifest; nil for those that are read again
	known  presence

	foreign bool // all who name it say that it may not be given on, or give addresses
	urls    []string
	choice  ForeignChoice
}

// each runs f for the numbers below n, some at the same time. The first failure
// ends the others and is the error.
func each(ctx context.Context, concurrency, n int, f func(ctx context.Context, i int) error) error {
	if concurrency <= 0 {
		concurrency = defaultConcurrency
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for i := range n {
		if within.Err() != nil {
			break
		}
		group.Go(func() error {
			if err := within.Err(); err != nil {
				return err
			}
			return f(within, i)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

const defaultConcurrency = 8

// isContentProblem says whether an error is about one piece of content and not
// about the place it is in.
func isContentProblem(err error) bool { return as[*ContentError](err) || as[*NotFoundError](err) }

// joinProblems is all of them in order, each once.
func joinProblems(problems []error) error {
	slices.SortStableFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// nameOfPart is what people call a descriptor: what its annotations say, else
// what that is called which it is part of; empty for nothing.
func nameOfPart(desc ocispec.Descriptor, parent *copyNode) string {
	a := desc.Annotations
	switch {
	case a[ocispec.AnnotationRefName] != "":
		return printable(a[ocispec.AnnotationRefName])
	case a[ocispec.AnnotationTitle] != "" && a[ocispec.AnnotationVersion] != "":
		return printable(a[ocispec.AnnotationTitle] + " " + a[ocispec.AnnotationVersion])
	case parent == nil:
		return ""
	case desc.Platform != nil && desc.Platform.OS != "":
		return strings.TrimPrefix(parent.name+", "+printable(desc.Platform.OS+"/"+desc.Platform.Architecture), ", ")
	}
	return parent.name
}

// of says what a node is or is part of, for people; empty for a root without name.
func (n *copyNode) of() string {
	if n.name == "" && n.parent != nil {
		return "part of " + n.parent.desc.Digest.String()
	}
	return n.name
}
