package charts

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	userAgent    = "waybill"
	fieldManager = "waybill" // what we send ourselves: the CRDs of crds/

	// Requests a second and at once, over all components together, of which
	// several are at work at a time. For its single one kubectl has 50 and 300;
	// the API server looks after itself beyond that.
	requestsPerSecond = 100
	requestsAtOnce    = 500
)

// nameHelmFieldManager gives what Helm writes the name Helm itself uses there;
// otherwise it takes the name of the program, and a later plain `helm upgrade`
// would share its fields with a stranger. Helm keeps the name in a package
// variable, so it is set once, before the first use.
var nameHelmFieldManager = sync.OnceFunc(func() { kube.ManagedFieldsManager = "helm" })

// ClusterOptions says which cluster is meant. The zero value is the one that
// kubectl and helm would take: KUBECONFIG, else ~/.kube/config, else the
// cluster the program runs in.
type ClusterOptions struct {
	// Kubeconfig is a file to read instead.
	Kubeconfig string
	// Context is the context of the kubeconfig, default its current one.
	Context string
	// Config is a ready configuration. The two above are then not looked at.
	Config *rest.Config
	// Warn takes the warnings the API server sends along with its answers. It
	// may be called from several goroutines. Default: they are dropped.
	Warn func(string)
}

// A Cluster is a Kubernetes API server. Discovery and the mapping from kinds
// to resources are shared by all that is done through it, and it may be used
// from several goroutines.
type Cluster struct {
	config    *rest.Config
	loader    clientcmd.ClientConfig
	discovery discovery.CachedDiscoveryInterface
	mapper    meta.ResettableRESTMapper
}

// Connect reads the configuration of a cluster. Nothing is dialled. An error
// is a [*ConfigError].
func Connect(opts ClusterOptions) (*Cluster, error) {
	nameHelmFieldManager()
	loader := opts.loader()
	config, err := opts.config(loader)
	if err != nil {
		return nil, &ConfigError{File: opts.Kubeconfig, Context: opts.Context, Err: err}
	}
	config.UserAgent = userAgent
	config.QPS, config.Burst = requestsPerSecond, requestsAtOnce
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(requestsPerSecond, requestsAtOnce)
	config.WarningHandler = warnings(opts.Warn)
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, &ConfigError{File: opts.Kubeconfig, Context: opts.Context, Err: err}
	}
	cached := memory.NewMemCacheClient(client)
	return &Cluster{
		config:    config,
		loader:    loader,
		discovery: cached,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(cached),
	}, nil
}

func (o ClusterOptions) loader() clientcmd.ClientConfig {
	if o.Config != nil {
		return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), &clientcmd.ConfigOverrides{})
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
}

func (o ClusterOptions) config(loader clientcmd.ClientConfig) (*rest.Config, error) {
	if o.Config != nil {
		return rest.CopyConfig(o.Config), nil
	}
	return loader.ClientConfig()
}

// RESTConfig is the configuration for other clients of the same cluster: a
// copy, with the same user agent and the same limit on requests.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Capabilities is what templates can ask about a cluster.
type Capabilities struct {
	// Version is the Kubernetes version without what vendors add to it:
	// v1.30.4 for v1.30.4-eks-a737599. Versions are compared by it.
	Version string
	// FullVersion is what the server calls itself, and what templates see.
	FullVersion string
	// APIVersions are the group versions and group/version/kinds that are
	// served, sorted, as Helm has them in .Capabilities.APIVersions.
	APIVersions []string
	// Digest is over FullVersion and APIVersions: another digest, and the same
	// chart may render otherwise.
	Digest digest.Digest
}

// Capabilities asks the cluster for its version and kinds. Kinds come from the
// shared discovery; [Cluster.Refresh] before it asks anew. An API group that
// does not answer is left out, as Helm does.
func (c *Cluster) Capabilities(ctx context.Context) (Capabilities, error) {
	found, err := c.capabilities(ctx)
	if err != nil {
		return Capabilities{}, err
	}
	caps := Capabilities{
		Version:     bareVersion(found.KubeVersion.Version),
		FullVersion: found.KubeVersion.Version,
		APIVersions: found.APIVersions,
	}
	caps.Digest = digest.FromString(caps.FullVersion + "\n" + strings.Join(caps.APIVersions, "\n"))
	return caps, nil
}

// capabilities is Capabilities in Helm's type, to be given to one action.
func (c *Cluster) capabilities(ctx context.Context) (*chartutil.Capabilities, error) {
	caps, err := await(ctx, func() (*chartutil.Capabilities, error) {
		version, err := c.discovery.ServerVersion()
		if err != nil {
			return nil, err
		}
		kinds, err := action.GetVersionSet(c.discovery)
		if err != nil {
			return nil, err
		}
		slices.Sort(kinds)
		return &chartutil.Capabilities{
			KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
			APIVersions: kinds,
			HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
		}, nil
	})
	if err != nil {
		return nil, c.explain("asking the cluster for its version and kinds", err)
	}
	return caps, nil
}

// Refresh forgets what is known of the cluster's kinds, so that the next use
// asks again. It is called by whoever brought new kinds.
func (c *Cluster) Refresh() {
	c.discovery.Invalidate()
	c.mapper.Reset()
}

// objects is a client for any kind whose requests end with ctx.
func (c *Cluster) objects(ctx context.Context) (dynamic.Interface, error) {
	return dynamic.NewForConfig(bind(ctx, c.config, nil))
}

var versionCore = regexp.MustCompile(`^v?\d+\.\d+(\.\d+)?`)

// bareVersion cuts a vendor's suffix off a Kubernetes version.
func bareVersion(version string) string {
	if core := versionCore.FindString(version); core != "" {
		return "v" + strings.TrimPrefix(core, "v")
	}
	return version
}

// await runs read, which must only read, and stops waiting for it when ctx
// ends. It is for those library calls that take no context.
func await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		value, err := read()
		answers <- answer{value, err}
	}()
	select {
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	case got := <-answers:
		return got.value, got.err
	}
}

// warner hands the API server's warnings on.
type warner func(string)

func (w warner) HandleWarningHeader(_ int, _ string, text string) {
	if text != "" {
		w(text)
	}
}

func warnings(warn func(string)) rest.WarningHandler {
	if warn == nil {
		return rest.NoWarnings{}
	}
	return warner(warn)
}

// A ConfigError reports that no cluster could be found in the configuration:
// a kubeconfig that is not there or not readable, or an unknown context.
type ConfigError struct {
	File, Context string // as given, may be empty
	Err           error
}

func (e *ConfigError) Error() string {
	var where string
	if e.File != "" {
		where = fmt.Sprintf(" of %q", filepath.ToSlash(e.File))
	}
	if e.Context != "" {
		where += fmt.Sprintf(", context %q", e.Context)
	}
	if clientcmd.IsEmptyConfig(e.Err) {
		return "no cluster is configured" + where
	}
	return fmt.Sprintf("reading the cluster configuration%s: %v", where, e.Err)
}

func (e *ConfigError) Unwrap() error { return e.Err }

// explain turns a network failure into an [*UnreachableError] and puts the
// act in front of everything else.
func (c *Cluster) explain(act string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var known *UnreachableError
	if errors.As(err, &known) {
		return err
	}
	if isUnreachable(err) {
		return &UnreachableError{Server: c.config.Host, Step: act, Err: err}
	}
	return fmt.Errorf("%s: %w", act, err)
}
