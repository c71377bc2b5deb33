package rollout

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/client-go/kubernetes"

	"waybill/bundle"
)

// DefaultStateNamespace is where records and leases are kept when neither the
// caller nor the site file says otherwise.
const DefaultStateNamespace = "waybill-system"

// What happens when a component fails. In every case but OnFailureLeave the
// failed component itself is taken back.
const (
	OnFailureStop     = "stop"     // nothing more begins, what is done stays; the default
	OnFailureRollback = "rollback" // all that this attempt changed is taken back too
	OnFailureContinue = "continue" // only what needs the failed component is skipped
	OnFailureLeave    = "leave"    // as stop, and nothing is taken back
)

// Config is what a [Runner] works with. Client and Charts are needed, and
// Holder for everything that writes.
type Config struct {
	Client kubernetes.Interface
	Charts Charts
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Holder names this run, and no other one, in the lease: host, process,
	// something random.
	Holder string
	// StateNamespace wins over the site file's; empty leaves it to that.
	StateNamespace string
	// Events is told of progress, one call at a time; nil is nobody.
	Events func(Event)
}

// Source is what is to be installed and what is known about where it is from.
type Source struct {
	Release     *bundle.Release
	Lock        *bundle.Lock
	ValuesFiles map[string][]byte // by the path the release file has
	Charts      Archives
	// Bundle is the digest of the bundle's root, empty for a local release
	// file, which is known by the other two.
	Bundle, ReleaseFile, LockFile digest.Digest
	// Location, Signer and Verification are recorded as they are given.
	Location, Signer, Verification string
	// LeftOut are images that the bundle holds without some of their layers.
	LeftOut []bundle.LeftOutImage
}

// Archives hands out the chart archives of a release; a [*bundle.Bundle] does.
type Archives interface {
	Chart(ctx context.Context, component string) ([]byte, error)
}

// FromBundle is the source that an opened bundle is. Location, Signer and
// Verification are for the caller to fill in.
func FromBundle(b *bundle.Bundle) Source {
	return Source{
		Release: b.Release, Lock: b.Lock, ValuesFiles: b.ValuesFiles, Charts: b,
		Bundle: b.Root.Digest, ReleaseFile: digest.FromBytes(b.ReleaseFile), LockFile: digest.FromBytes(b.LockFile),
		LeftOut: b.LeftOut(),
	}
}

// A ReleaseFile is a local release file with what lies beside it.
type ReleaseFile struct {
	Release     *bundle.Release
	Lock        *bundle.Lock
	Data        []byte            // of the release file, as it is on disk
	LockData    []byte            // of the lock, as it is on disk
	ValuesFiles map[string][]byte // by the path the release file has
	Charts      map[string][]byte // locked archives, by component
}

// FromReleaseFile is the source that a local release file is: the word of whoever
// runs the program, so that nobody signs it. Location is for the caller to fill in.
func FromReleaseFile(f ReleaseFile) Source {
	return Source{
		Release: f.Release, Lock: f.Lock, ValuesFiles: f.ValuesFiles, Charts: archivesByName(f.Charts),
		ReleaseFile: digest.FromBytes(f.Data), LockFile: digest.FromBytes(f.LockData),
		Signer: SignerReleaseFile, Verification: "none",
	}
}

// SignerReleaseFile is recorded as the signer of what came from a local release
// file.
const SignerReleaseFile = "none (release file)"

type archivesByName map[string][]byte

func (a archivesByName) Chart(_ context.Context, component string) ([]byte, error) {
	archive, ok := a[component]
	if !ok {
		return nil, fmt.Errorf("the chart of component %s was not fetched", component)
	}
	return archive, nil
}

// Request says what to plan or install. The zero value of everything but
// Source is the careful choice.
type Request struct {
	Source Source
	// Site is the site file, SiteText its bytes, SiteFiles the values files
	// it names, by the path it has. Nil for none.
	Site      *bundle.Site
	SiteText  []byte
	SiteFiles map[string][]byte
	// NoSite says that it is no mistake to give no site file where the last
	// attempt had one.
	NoSite bool
	// Instance wins over the site file's; empty is the release's name.
	Instance string
	// Components are the ones to work on; none is all.
	Components []string
	// Values are further layers by component, in their order, winning over
	// all others.
	Values map[string][]Layer
	// Images says where nodes pull from.
	Images Images
	// AllowDowngrade lets an older version replace a newer one.
	AllowDowngrade bool
	// OnFailure is one of the constants, [OnFailureStop] when empty.
	OnFailure string
	// Concurrency is how many components are worked on at the same time; 0
	// is 4.
	Concurrency int
	// NamespaceWait is how long Install waits for a namespace that is being
	// deleted; 0 is two minutes, less is not at all.
	NamespaceWait time.Duration
	// LeaseWait is how long Install waits for somebody else's lease; 0 is not
	// at all.
	LeaseWait time.Duration
}

// Runner plans, installs and uninstalls instances in one cluster. Its methods
// may be called at the same time.
type Runner struct {
	client         kubernetes.Interface
	charts         Charts
	now            func() time.Time
	holder         string
	stateNamespace string
	events         func(Event)
	times          leaseTimes
	poll           time.Duration // between two looks at a namespace that is going
	cleanup        time.Duration // for what is still to be done after an interruption
	accountWait    time.Duration // for the default ServiceAccount of a new namespace
}

// NewRunner returns a runner. It asks nothing of the cluster.
func NewRunner(cfg Config) *Runner {
	r := &Runner{
		client: cfg.Client, charts: cfg.Charts, now: cfg.Now, holder: cfg.Holder, stateNamespace: cfg.StateNamespace,
		events: cfg.Events, times: defaultLeaseTimes, poll: time.Second, cleanup: 30 * time.Second, accountWait: 30 * time.Second,
	}
	if r.now == nil {
		r.now = time.Now
	}
	if cfg.Events == nil {
		r.events = func(Event) {}
		return r
	}
	var mu sync.Mutex
	r.events = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		cfg.Events(e)
	}
	return r
}

// state returns the namespace of records and lease.
func (r *Runner) state(site *bundle.Site) string {
	switch {
	case r.stateNamespace != "":
		return r.stateNamespace
	case site != nil && site.StateNamespace != "":
		return site.StateNamespace
	}
	return DefaultStateNamespace
}

// The kinds of [Event].
const (
	EventLease     = "lease"     // the lease was taken, or waited for
	EventHealed    = "healed"    // what a dead attempt left was put in order
	EventNamespace = "namespace" // a namespace was created, or is waited for
	EventWaiting   = "waiting"   // a component waits on others
	EventBegun     = "begun"
	EventDone      = "done"
	EventUnchanged = "unchanged"
	EventFailed    = "failed"
	EventTakenBack = "taken back"
	EventSkipped   = "skipped"
	EventWarning   = "warning" // something is not as it should be and the work goes on
)

// Event is one line of progress.
type Event struct {
	Kind      string
	Component string   // empty when it is about the whole
	On        []string // what a waiting component waits on
	Message   string
	Duration  time.Duration // of what ended
}

var instanceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// instance returns the request's instance name, or a [*UsageError].
func (req *Request) instance() (string, error) {
	name := req.Instance
	if name == "" && req.Site != nil {
		name = req.Site.Instance
	}
	if name == "" {
		name = req.Source.Release.Name
	}
	return name, checkInstance(name)
}

func checkInstance(name string) error {
	if len(name) > 63 || !instanceName.MatchString(name) {
		return &UsageError{Reason: "instance name " + quote(name) + " is no DNS label"}
	}
	return nil
}

// historyMax is how many records are kept.
func (req *Request) historyMax() int {
	if req.Site != nil && req.Site.HistoryMax > 0 {
		return req.Site.HistoryMax
	}
	return 10
}

func (req *Request) concurrency() int {
	if req.Concurrency > 0 {
		return req.Concurrency
	}
	return 4
}

func (req *Request) namespaceWait() time.Duration {
	if req.NamespaceWait == 0 {
		return 2 * time.Minute
	}
	return req.NamespaceWait
}

// onFailure returns the policy, or a [*UsageError].
func (req *Request) onFailure() (string, error) {
	known := []string{OnFailureStop, OnFailureRollback, OnFailureContinue, OnFailureLeave}
	switch {
	case req.OnFailure == "":
		return OnFailureStop, nil
	case slices.Contains(known, req.OnFailure):
		return req.OnFailure, nil
	}
	return "", &UsageError{Reason: "no such choice on failure: " + quote(req.OnFailure) + "; " + knownText(known)}
}
