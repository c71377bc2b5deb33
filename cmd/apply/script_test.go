package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"waybill/internal/script"
	"waybill/test/cluster"
)

func TestMain(m *testing.M) {
	testscript.Main(testRun(func() int { return cluster.ForMain(m) }), map[string]func(){"apply": main})
}

type testRun func() int

func (r testRun) Run() int { return r() }

// TestScripts runs the scripts that need no cluster.
func TestScripts(t *testing.T) {
	programs := buildBundle(t)
	script.Run(t, script.Params("testdata/script", func(env *testscript.Env) error {
		env.Setenv("PATH", programs+string(os.PathListSeparator)+env.Getenv("PATH"))
		return nil
	}, nil))
}

// TestClusterScripts runs the scripts that work on a real API server, which
// they share: each has its own user, releases and namespaces.
func TestClusterScripts(t *testing.T) {
	c := cluster.ForTest(t)
	programs := buildBundle(t)
	params := script.Params("testdata/cluster", func(env *testscript.Env) error {
		env.Setenv("PATH", strings.Join([]string{programs, os.Getenv("WAYBILL_PEERS"), env.Getenv("PATH")}, string(os.PathListSeparator)))
		return nil
	}, map[string]func(*testscript.TestScript, bool, []string){
		"cluster": func(ts *testscript.TestScript, _ bool, args []string) { useCluster(ts, c, args) },
		"kube":    func(ts *testscript.TestScript, neg bool, args []string) { kube(ts, c, neg, args) },
		"mark": func(ts *testscript.TestScript, _ bool, _ []string) {
			ts.Setenv("MARK", time.Now().Format(time.RFC3339Nano))
		},
		"writes": func(ts *testscript.TestScript, neg bool, _ []string) { writes(ts, c, neg) },
	})
	params.Condition = func(cond string) (bool, error) {
		if program, ok := strings.CutPrefix(cond, "peer:"); ok {
			_, err := os.Stat(filepath.Join(os.Getenv("WAYBILL_PEERS"), program))
			return err == nil && os.Getenv("WAYBILL_PEERS") != "", nil
		}
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	script.Run(t, params)
}

// buildBundle builds the other program, which makes what this one installs.
func buildBundle(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "bundle"), "waybill/cmd/bundle")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building bundle: %v\n%s", err, out)
	}
	return dir
}

// useCluster makes the cluster that of the script, for a user of its own with
// all rights, or for a user in the groups named.
func useCluster(ts *testscript.TestScript, c *cluster.Cluster, groups []string) {
	user := cluster.User{Name: "user-of-" + strings.ReplaceAll(ts.Name(), "/", "-"), Groups: []string{"system:masters"}}
	if len(groups) > 0 {
		user.Name, user.Groups = user.Name+"-"+groups[0], groups
	}
	path, err := c.KubeconfigFor(user)
	ts.Check(err)
	ts.Setenv("KUBECONFIG", path)
	ts.Setenv("KUBEUSER", user.Name)
}

// writes wants (or with ! wants no) writing requests of the script's user
// since mark.
func writes(ts *testscript.TestScript, c *cluster.Cluster, neg bool) {
	since, err := time.Parse(time.RFC3339Nano, ts.Getenv("MARK"))
	ts.Check(err)
	all, err := c.Writes(context.Background(), since)
	ts.Check(err)
	var mine []string
	for _, r := range all {
		if r.User == ts.Getenv("KUBEUSER") {
			mine = append(mine, r.Verb+" "+r.URI)
		}
	}
	if neg && len(mine) > 0 {
		ts.Fatalf("there were writes:\n%s", strings.Join(mine, "\n"))
	}
	if !neg && len(mine) == 0 {
		ts.Fatalf("there was no write")
	}
}

// kube is the script's kubectl, as an administrator:
//
//	kube get RESOURCE NAMESPACE NAME     prints it as YAML (! wants it absent)
//	kube await RESOURCE NAMESPACE NAME   waits until it is there
//	kube names RESOURCE NAMESPACE        prints the names
//	kube create RESOURCE NAMESPACE FILE
//	kube delete RESOURCE NAMESPACE NAME
//
// RESOURCE is group/version/plural or version/plural; "-" is no namespace.
func kube(ts *testscript.TestScript, c *cluster.Cluster, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: kube get|await|names|create|delete RESOURCE NAMESPACE [NAME|FILE]")
	}
	client, err := dynamic.NewForConfig(c.Config())
	ts.Check(err)
	var resource dynamic.ResourceInterface = client.Resource(parseResource(ts, args[1]))
	if args[2] != "-" {
		resource = client.Resource(parseResource(ts, args[1])).Namespace(args[2])
	}
	ctx := context.Background()
	switch args[0] {
	case "get":
		object, err := resource.Get(ctx, args[3], metav1.GetOptions{})
		if neg {
			if !apierrors.IsNotFound(err) {
				ts.Fatalf("%s %s is there (%v)", args[1], args[3], err)
			}
			return
		}
		ts.Check(err)
		text, err := yaml.Marshal(object.Object)
		ts.Check(err)
		fmt.Fprint(ts.Stdout(), string(text))
	case "await":
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			_, err := resource.Get(ctx, args[3], metav1.GetOptions{})
			if err == nil {
				return
			}
			if !apierrors.IsNotFound(err) || time.Now().After(deadline) {
				ts.Fatalf("waiting for %s %s: %v", args[1], args[3], err)
			}
		}
	case "names":
		list, err := resource.List(ctx, metav1.ListOptions{})
		ts.Check(err)
		for _, item := range list.Items {
			fmt.Fprintln(ts.Stdout(), item.GetName())
		}
	case "create":
		var object unstructured.Unstructured
		ts.Check(yaml.Unmarshal([]byte(ts.ReadFile(args[3])), &object.Object))
		_, err := resource.Create(ctx, &object, metav1.CreateOptions{})
		ts.Check(err)
	case "delete":
		ts.Check(resource.Delete(ctx, args[3], metav1.DeleteOptions{}))
	default:
		ts.Fatalf("kube %s is unknown", args[0])
	}
}

func parseResource(ts *testscript.TestScript, text string) schema.GroupVersionResource {
	parts := strings.Split(text, "/")
	switch len(parts) {
	case 2:
		return schema.GroupVersionResource{Version: parts[0], Resource: parts[1]}
	case 3:
		return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	}
	ts.Fatalf("%q is no resource", text)
	return schema.GroupVersionResource{}
}
