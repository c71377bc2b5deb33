package rollout

import (
	"context"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
)

// Charts is what this room needs of Helm and of the objects in the cluster.
// Calls for different components come at the same time.
//
// Every method that asks the cluster returns a [*ClusterError] when the
// cluster cannot be reached, and the context's error when it was cancelled;
// all other errors are taken as final and told as they are.
type Charts interface {
	// Capabilities returns what the cluster is; fresh asks it again instead
	// of remembering.
	Capabilities(ctx context.Context, fresh bool) (Capabilities, error)
	// Merge lays values over each other, the last wins, a null deletes what
	// chart or earlier layers set. Nulls are kept in what it returns, since
	// they delete chart defaults too.
	Merge(layers []Layer) (map[string]any, error)
	// CheckKeys returns the keys of layers that the chart knows nothing of.
	CheckKeys(c HelmComponent, layers []Layer) ([]UnknownKey, error)
	// History returns the Helm revisions of a Helm release, oldest first;
	// none is no error.
	History(ctx context.Context, namespace, helmRelease string) ([]HelmRevision, error)
	// Preview renders the component and compares it with the cluster. It
	// reads only.
	Preview(ctx context.Context, c HelmComponent) (*Preview, error)
	// Apply installs, replaces or upgrades, whichever the Helm history asks
	// for, as the revision that follows the newest one, and waits until its
	// objects are ready. It puts nothing back.
	Apply(ctx context.Context, c HelmComponent) (HelmRevision, error)
	// Fail writes down that a revision (pending, or deployed and then taken
	// back) has failed.
	Fail(ctx context.Context, namespace, helmRelease string, number int, why string) error
	// Rollback goes back to revision number, as a new revision, and waits.
	Rollback(ctx context.Context, c HelmComponent, number int) (HelmRevision, error)
	// TakeBack deletes exactly the objects that carry c.Mark, but no claims
	// and no CRDs. It converges when it is run again.
	TakeBack(ctx context.Context, c HelmComponent) error
	// Uninstall removes the Helm release; one that is not there is no error.
	Uninstall(ctx context.Context, c HelmComponent) error
	// Origin says where an object is from; nil for one that is not there.
	Origin(ctx context.Context, object ObjectName) (*ObjectOrigin, error)
}

// ObjectName names one object of the cluster.
type ObjectName struct{ APIVersion, Kind, Namespace, Name string }

// ObjectOrigin is what an object says of where it is from.
type ObjectOrigin struct {
	HelmRelease, HelmNamespace string      // empty for none
	Mark                       string      // of the attempt that created it, see [HelmComponent]
	Owner                      *ObjectName // nil for none
}

// Capabilities is what a cluster is.
type Capabilities struct {
	Version string        // as the server says it: v1.34.4
	Digest  digest.Digest // of the version and the kinds it serves
}

// HelmComponent is one component as it is to be in the cluster.
type HelmComponent struct {
	Name        string // the component's
	Archive     []byte // the chart's .tgz; nil for Rollback, TakeBack and Uninstall
	HelmRelease string
	Namespace   string
	Values      map[string]any // merged, without the chart's defaults
	// Locate gives the reference to send in place of a normalised image
	// reference; nil sends what the chart says.
	Locate      func(normalized string) (reference string, ok bool)
	PullSecret  string   // of that name, attached to pods and ServiceAccounts when there is a Locate
	Coming      []Coming // kinds that others bring before it; looked at by Preview only
	CRDs        string   // upgrade, create or skip
	Timeout     time.Duration
	Labels      map[string]string // for the Helm release
	Mark        string            // of this attempt, for objects it creates
	KeepHistory int               // how many Helm revisions to keep, 0 for Helm's own rule
}

// A Coming is kinds (group/version, Kind) that a component brings and the
// cluster does not serve yet.
type Coming struct {
	Component string
	Kinds     []string
}

// Layer is one source of values. Exactly one of Values, YAML, Set and
// TargetPath is used.
type Layer struct {
	// Name says where the values come from, for messages.
	Name   string
	Values map[string]any
	YAML   []byte
	// Set is key=value as Helm's --set reads it.
	Set string
	// TargetPath is the path that Text is put at, as text that is not parsed
	// further than Helm's --set-string would.
	TargetPath string
	Text       string
}

// UnknownKey is a key in the values that no chart reads.
type UnknownKey struct {
	Path    string
	Nearest string // what was probably meant, or empty
	Layer   string // name of the layer that has it
}

// HelmRevision is one entry of a Helm release's history.
type HelmRevision struct {
	Number      int
	Status      string // as Helm spells it: deployed, failed, pending-install, …
	Chart       string
	Version     string
	Labels      map[string]string
	Updated     time.Time
	Description string
}

// Preview is what a component would do to the cluster.
type Preview struct {
	// Changed says whether the rendering differs from the newest deployed
	// revision's, apart from what differs between two renderings of the same
	// input.
	Changed bool
	// Conflicts are objects that exist and belong to somebody else.
	Conflicts []Conflict
	// Missing are the kinds (group/version, Kind) the rendering uses, the
	// cluster does not serve and the chart's own crds/ do not bring.
	Missing []string
	// Brings are the kinds that CRDs in the chart, wherever they stand in it,
	// bring; Adds are those that the cluster does not serve yet.
	Brings, Adds []string
	// Follows are the components of [HelmComponent.Coming] without whose kinds
	// the rendering is another one, or none.
	Follows []string
	// MissingNamespaces are used by its objects, do not exist and are not made
	// by the chart; EndingNamespaces are being deleted.
	MissingNamespaces, EndingNamespaces []string
	// RecordBytes is the size of Helm's record, RecordLimit what fits; a zero
	// limit is none.
	RecordBytes, RecordLimit int
	Largest                  []string // what makes the record large
	Images                   PreviewedImages
}

// Conflict is an object that belongs to somebody else, or stands in the way
// for another reason.
type Conflict struct {
	Object string // Kind namespace/name
	Owner  string // whose it is, as far as its marks tell: "Helm release shop/db", "made by kubectl", or empty
	Reason string // what is wrong when it is not the owner, as what follows the object's name
}

func (c Conflict) String() string {
	switch {
	case c.Reason != "":
		return c.Object + " " + c.Reason
	case c.Owner != "":
		return c.Object + " exists and is not part of this Helm release (" + c.Owner + ")"
	}
	return c.Object + " exists and is not part of this Helm release"
}

// Helm's words for the states of a revision.
const (
	helmDeployed    = "deployed"
	helmSuperseded  = "superseded"
	helmFailed      = "failed"
	helmUninstalled = "uninstalled"
)

// Labels of what belongs to an instance: Helm releases, namespaces, records.
const (
	LabelInstance  = "waybill/instance"
	LabelComponent = "waybill/component"
	LabelRelease   = "waybill/release"
	LabelStatus    = "waybill/status"
)

// pending says whether a revision was begun and not ended: it is in a state
// that Helm leaves only through the process that set it.
func (r HelmRevision) pending() bool {
	switch r.Status {
	case "pending-install", "pending-upgrade", "pending-rollback", "uninstalling", "unknown", "":
		return true
	}
	return false
}

// last returns the newest revision, the zero value for none.
func last(history []HelmRevision) HelmRevision {
	if len(history) == 0 {
		return HelmRevision{}
	}
	return history[len(history)-1]
}

// lastGood returns the number of the newest revision up to limit that was
// deployed once and not uninstalled since, 0 for none. A revision that is
// deployed now goes before one that was superseded.
func lastGood(history []HelmRevision, limit int) int {
	superseded := 0
	for _, rev := range slices.Backward(history) {
		switch {
		case rev.Number > limit:
		case rev.Status == helmUninstalled:
			return superseded
		case rev.Status == helmDeployed:
			return rev.Number
		case rev.Status == helmSuperseded:
			superseded = max(superseded, rev.Number)
		}
	}
	return superseded
}
