package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"waybill/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.ForMain(m)) }

// packedChart packs files as a chart called shop.
func packedChart(t *testing.T, version string, files map[string]string) *Chart {
	t.Helper()
	all := map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: " + version + "\n"}
	maps.Copy(all, files)
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		header := &tar.Header{Name: "shop/" + name, Mode: 0o644, Size: int64(len(all[name])), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(all[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	chart, err := Open(packed.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// onCluster is a cluster, and a namespace of it that is the test's own.
type onCluster struct {
	*Cluster
	t         *testing.T
	clients   kubernetes.Interface
	namespace string
	under     *cluster.Cluster
}

func newOnCluster(t *testing.T) *onCluster {
	t.Helper()
	t.Parallel()
	under := cluster.ForTest(t)
	connected, err := Connect(ClusterOptions{Config: under.Config()})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := kubernetes.NewForConfig(under.Config())
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "charts-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := clients.CoreV1().Namespaces().Delete(ctx, namespace.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return &onCluster{Cluster: connected, t: t, clients: clients, namespace: namespace.Name, under: under}
}

// component is chart as a component called shop, waited for half a minute.
func (o *onCluster) component(chart *Chart) Component {
	return Component{
		Name: "shop", Chart: chart, HelmRelease: "shop", Namespace: o.namespace, Timeout: 30 * time.Second,
		Labels: map[string]string{"waybill/instance": "trial", "waybill/component": "shop"}, Mark: "attempt-1",
	}
}

// apply applies what must succeed.
func (o *onCluster) apply(comp Component) Revision {
	o.t.Helper()
	revision, err := o.Apply(o.t.Context(), comp, ApplyOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	return revision
}

// statuses are those of the Helm release shop, oldest first.
func (o *onCluster) statuses() string {
	o.t.Helper()
	history, err := o.History(o.t.Context(), o.namespace, "shop")
	if err != nil {
		o.t.Fatal(err)
	}
	var all []string
	for _, revision := range history {
		all = append(all, revision.Status)
	}
	return strings.Join(all, " ")
}

// live is an object as it is in the cluster, nil when it is not there.
func (o *onCluster) live(manifest string) map[string]any {
	o.t.Helper()
	targets, _, err := o.locate(o.t.Context(), manifest, o.namespace)
	if err != nil || len(targets) != 1 {
		o.t.Fatalf("locating %q: %v", manifest, err)
	}
	client, err := o.objects(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	live, err := targets[0].in(client).Get(o.t.Context(), targets[0].name(), metav1.GetOptions{})
	if isGone(err) {
		return nil
	}
	if err != nil {
		o.t.Fatal(err)
	}
	return live.Object
}

// create makes an object as somebody else would.
func (o *onCluster) create(manifest string) {
	o.t.Helper()
	targets, _, err := o.locate(o.t.Context(), manifest, o.namespace)
	if err != nil || len(targets) != 1 {
		o.t.Fatalf("locating %q: %v", manifest, err)
	}
	client, err := o.objects(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	if _, err := targets[0].in(client).Create(o.t.Context(), targets[0].object, metav1.CreateOptions{FieldManager: "somebody"}); err != nil {
		o.t.Fatal(err)
	}
}

func refer(apiVersion, kind, name string) string {
	data, err := yaml.Marshal(map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}})
	if err != nil {
		panic(err)
	}
	return string(data)
}

const settingsTemplate = `apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: {{ .Values.colour | default "red" | quote }}}
`

// webTemplate is a Deployment whose only replica may be unavailable. The value
// pod says what becomes of its pods.
const webTemplate = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: {{ if hasKey .Values "replicas" }}{{ .Values.replicas }}{{ else }}1{{ end }}
  strategy: {rollingUpdate: {maxUnavailable: 1}}
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {waybill.test/pod: {{ .Values.pod | default "" | quote }}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "example.com/web:1.27"}]
`

const claimTemplate = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Mi}}
`

func jobTemplate(name, annotations string) string {
	return `apiVersion: batch/v1
kind: Job
metadata:
  name: ` + name + `
  annotations: {` + annotations + `}
spec:
  backoffLimit: 0
  template:
    metadata:
      annotations: {waybill.test/pod: {{ .Values.job | default "" | quote }}}
    spec:
      restartPolicy: Never
      containers: [{name: work, image: "example.com/work:1"}]
`
}
