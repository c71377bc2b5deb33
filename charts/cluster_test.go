package charts

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

func crdMapping() *meta.RESTMapping {
	return &meta.RESTMapping{
		Resource:         schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		GroupVersionKind: schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
		Scope:            meta.RESTScopeRoot,
	}
}

func TestConnectFindsTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config")
	content := `apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://a.example.com"}}, {name: b, cluster: {server: "https://b.example.com"}}]
contexts: [{name: a, context: {cluster: a}}, {name: b, context: {cluster: b}}]
current-context: a
`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", file)
	for name, test := range map[string]struct {
		opts ClusterOptions
		host string // empty: a ConfigError
	}{
		"KUBECONFIG":      {ClusterOptions{}, "https://a.example.com"},
		"another context": {ClusterOptions{Context: "b"}, "https://b.example.com"},
		"a file":          {ClusterOptions{Kubeconfig: file}, "https://a.example.com"},
		"no such file":    {ClusterOptions{Kubeconfig: filepath.Join(dir, "none")}, ""},
		"no such context": {ClusterOptions{Context: "c"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, err := Connect(test.opts)
			var config *ConfigError
			if test.host == "" {
				if !errors.As(err, &config) {
					t.Errorf("connect said %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := cluster.RESTConfig(); got.Host != test.host || got.UserAgent != "waybill" {
				t.Errorf("host %s, user agent %s", got.Host, got.UserAgent)
			}
		})
	}
}

func TestUnreachableClusterIsNamed(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	cluster, err := Connect(ClusterOptions{Config: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	chart := packedChart(t, "1.0.0", map[string]string{"templates/settings.yaml": settingsTemplate})
	comp := Component{Name: "shop", Chart: chart, HelmRelease: "shop", Namespace: "default", Mark: "m"}
	for name, ask := range map[string]func(ctx context.Context) error{
		"capabilities": func(ctx context.Context) error { _, err := cluster.Capabilities(ctx); return err },
		"history":      func(ctx context.Context) error { _, err := cluster.History(ctx, "default", "shop"); return err },
		"apply":        func(ctx context.Context) error { _, err := cluster.Apply(ctx, comp, ApplyOptions{}); return err },
		"preview":      func(ctx context.Context) error { _, err := cluster.Preview(ctx, comp); return err },
		"take back":    func(ctx context.Context) error { return cluster.TakeBack(ctx, comp) },
		"uninstall":    func(ctx context.Context) error { return cluster.Uninstall(ctx, comp) },
	} {
		var unreachable *UnreachableError
		if err := ask(t.Context()); !errors.As(err, &unreachable) || unreachable.Server != server.URL {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRequestsEndWithTheirAction(t *testing.T) {
	arrived := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush() // the body never comes
		close(arrived)
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	client, err := rest.HTTPClientFor(bind(ctx, &rest.Config{Host: server.URL}, nil))
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	resp, err := client.Get(server.URL) // as Helm does: without a context
	if err != nil {
		t.Fatal(err)
	}
	<-arrived
	time.AfterFunc(50*time.Millisecond, func() { cancel(stop) })
	begun := time.Now()
	if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
		t.Error("reading went on")
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if time.Since(begun) > time.Second {
		t.Error("it took long to stop")
	}
	if _, err := client.Get(server.URL); !errors.Is(err, stop) {
		t.Errorf("a later request said %v", err)
	}
}

func TestCapabilitiesAreHelms(t *testing.T) {
	o := newOnCluster(t)
	caps, err := o.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"apps/v1", "apps/v1/Deployment", "v1", "v1/Pod"} {
		if !slices.Contains(caps.APIVersions, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if !slices.IsSorted(caps.APIVersions) || caps.Digest.Validate() != nil {
		t.Errorf("sorted %t, digest %q", slices.IsSorted(caps.APIVersions), caps.Digest)
	}
	again, err := o.Capabilities(t.Context())
	if err != nil || again.Digest != caps.Digest {
		t.Errorf("the digest is %s, then %s: %v", caps.Digest, again.Digest, err)
	}
}

func TestBareVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.30.4": "v1.30.4", "v1.30.4-eks-a737599": "v1.30.4", "v1.27.3-gke.100": "v1.27.3", "v1.31.0+k3s1": "v1.31.0", "1.28": "v1.28", "odd": "odd",
	} {
		if got := bareVersion(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
