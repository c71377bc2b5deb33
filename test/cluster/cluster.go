// Package cluster starts a real Kubernetes control plane for tests: etcd, kube-apiserver and kube-controller-manager
// on loopback, and instead of machines one node of its own that makes pods run, or fail as their annotation says.
//
// It knows how the programs are built and cached, started and ended, and what a kubelet would write into a pod's
// status. It knows nothing of bundles, charts or rollouts: their tests use the cluster as anybody would, through a
// kubeconfig, and only the pods are pretended. Deployments, Jobs, namespaces, service accounts, garbage collection and
// rights are Kubernetes' own.
//
// A test begins with [ForTest]; a program with [Build] and [Start].
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// startTimeout bounds [Start], where the context sets no earlier end. Seven seconds are usual; a machine that
// compiles on all cores at the same time needs several times that.
const startTimeout = 3 * time.Minute

// Admin is the user of [Cluster.Kubeconfig] and [Cluster.Config]: it may do everything.
var Admin = User{Name: "admin", Groups: []string{"system:masters"}}

// Options of [Start]. The zero value starts the programs that [Find] finds in a temporary folder.
type Options struct {
	// Programs are the programs to start. Default: what [Find] finds.
	Programs Programs
	// Dir is where kubeconfig, logs and audit log are kept; it is created where absent and stays. The cluster's state,
	// in its sub-folder state, never outlives the cluster. Default: a temporary folder, removed at the end.
	Dir string
	// Listen is the address (IP:PORT) that the API server serves. Default: a free port of the loopback.
	Listen string
	// NoNode leaves out the node that pretends: pods and claims wait until a real kubelet joins the cluster.
	NoNode bool
}

// A Cluster is a running control plane with its node.
type Cluster struct {
	dir       string
	listen    string
	noNode    bool
	server    string
	authority *authority
	programs  *group
	admin     *rest.Config
	stopNode  func()
	stopOnce  sync.Once
	stopErr   error
}

// Start starts a cluster and returns once it serves, its node is Ready and pods can be created. What it started ends
// with [Cluster.Stop], or when the calling process ends, however that happens. The context bounds the start only.
//
// Errors: [ErrNoPrograms]; anything else tells which program did not start, with the end of its log.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	programs := opts.Programs
	if programs == nil {
		found, err := Find()
		if err != nil {
			return nil, err
		}
		programs = found
	}
	dir, state, remove, err := folders(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("making the cluster's folder: %w", err)
	}
	g, err := startGroup(remove)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(remove))
	}
	c := &Cluster{dir: dir, listen: opts.Listen, noNode: opts.NoNode, programs: g, stopNode: func() {}}
	start, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.start(start, programs, state); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the test cluster: %w", err), c.Stop())
	}
	return c, nil
}

// folders makes the folder of a cluster and the one for its state inside, and says which of the two is removed in
// the end.
func folders(given string) (dir, state, remove string, err error) {
	if given == "" {
		dir, err = os.MkdirTemp("", "waybill-cluster-")
		if err != nil {
			return "", "", "", err
		}
		state = filepath.Join(dir, "state")
		return dir, state, dir, os.Mkdir(state, 0o700)
	}
	dir, err = filepath.Abs(given)
	if err != nil {
		return "", "", "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", "", err
	}
	state = filepath.Join(dir, "state")
	err = os.Mkdir(state, 0o700)
	if errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("%s is there already: a cluster runs in this folder, or the machine went down under one; then remove it", state)
	}
	return dir, state, state, err
}

// start starts the programs in order, each once the one before it serves, and then the node.
func (c *Cluster) start(ctx context.Context, programs Programs, state string) error {
	files, err := c.prepare(state)
	if err != nil {
		return err
	}
	if err := c.startEtcd(ctx, programs, files); err != nil {
		return err
	}
	if err := c.startServer(ctx, programs, files); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return err
	}
	controllers, err := c.startControllers(programs, files)
	if err != nil {
		return err
	}
	if c.noNode {
		return controllers.waitUntil(ctx, func(ctx context.Context) error { return hasAccount(ctx, client) })
	}
	if err := c.startNode(ctx); err != nil {
		return fmt.Errorf("starting the node: %w", err)
	}
	return controllers.waitUntil(ctx, func(ctx context.Context) error { return usable(ctx, client) })
}

// Run starts a further program as a part of the cluster: it ends with the cluster, what it says goes to NAME.log in the
// cluster's folder, and its environment holds nothing but the search path. Run returns once ready returns nil; an error
// tells the end of the log of a program that ended before, or did not get ready while the context allowed it.
func (c *Cluster) Run(ctx context.Context, ready func(context.Context) error, path string, args ...string) error {
	p, err := c.programs.start(path, c.dir, args...)
	if err != nil {
		return err
	}
	return p.waitUntil(ctx, ready)
}

// startNode starts the node as a user of its own, so that its writes can be told from those of a test.
func (c *Cluster) startNode(ctx context.Context) error {
	config, err := c.ConfigFor(User{Name: "system:node:" + NodeName, Groups: []string{"system:masters"}})
	if err != nil {
		return err
	}
	config.QPS = -1 // the node serves a whole cluster: no throttling on its side
	stop, err := runNode(ctx, config)
	if err != nil {
		return err
	}
	c.stopNode = stop
	return nil
}

// Stop ends the node and the programs and removes the cluster's state, and the whole folder where it was a temporary
// one. A second call does nothing.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		c.stopNode()
		c.stopErr = c.programs.stop()
	})
	return c.stopErr
}

// Dir is the cluster's folder: kubeconfig, audit.log and one log for each program.
func (c *Cluster) Dir() string { return c.dir }

// Kubeconfig is the path of the kubeconfig file of [Admin].
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// Config is a new configuration for clients of [Admin].
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.admin) }

// KubeconfigFor writes a kubeconfig file of any other user, known before or not, and returns its path. What the user
// may do is up to RBAC: nothing, unless a group or a binding says otherwise. A test that uses a name of its own finds
// its own requests by that name in [Cluster.Requests].
func (c *Cluster) KubeconfigFor(user User) (string, error) {
	file, err := os.CreateTemp(c.dir, "kubeconfig-")
	if err != nil {
		return "", fmt.Errorf("writing a kubeconfig for %q: %w", user.Name, err)
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("writing a kubeconfig for %q: %w", user.Name, err)
	}
	return file.Name(), c.writeKubeconfig(file.Name(), user)
}

// ConfigFor is a new configuration for clients of any other user, as [Cluster.KubeconfigFor].
func (c *Cluster) ConfigFor(user User) (*rest.Config, error) {
	config, err := c.authority.kubeconfig(c.server, user)
	if err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(config, nil).ClientConfig()
}

func (c *Cluster) writeKubeconfig(path string, user User) error {
	config, err := c.authority.kubeconfig(c.server, user)
	if err != nil {
		return err
	}
	return clientcmd.WriteToFile(config, path)
}
