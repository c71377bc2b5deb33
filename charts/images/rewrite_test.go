package images

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	d1 = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	d2 = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

func rewriter() *Rewriter {
	known := map[string]string{
		"docker.io/library/busybox:latest": "site.example/b@" + d1,
		"docker.io/shop/app:1.0":           "site.example/b@" + d2,
		"quay.io/shop/side:v2":             "site.example/b@" + d1,
		"docker.io/library/redis:7.2":      "site.example/b@" + d2,
	}
	return &Rewriter{Locate: func(s string) (string, bool) { to, ok := known[s]; return to, ok }}
}

// Each object is in one document; {1} and {2} stand for the new references.
func TestRewrite(t *testing.T) {
	for name, tc := range map[string]struct{ from, to string }{
		"containers, and nothing that is only named alike": {
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: busybox\n  labels: {app: busybox}\nspec:\n  # which\n  containers:\n    - name: busybox\n      image: busybox\n",
			"apiVersion: v1\nkind: Pod\nmetadata:\n  name: busybox\n  labels: {app: busybox}\nspec:\n  # which\n  containers:\n    - name: busybox\n      image: {1}\n",
		},
		"arguments and environment: whole texts and values of flags, and no part of a longer text": {
			"kind: Pod\napiVersion: v1\nspec:\n  containers:\n    - name: a\n      image: shop/app:1.0\n      command: [sh, -c, \"run 'shop/app:1.0' x--image=shop/app:1.0\"]\n      args: [--worker=shop/app:1.0, --image, shop/app:1.0, WORKER=shop/app:1.0, --name=shop/app, myshop/app:1.0, shop/app:1.0x]\n      env:\n        - {name: IMG, value: \"quay.io/shop/side:v2\"}\n        - {name: LIST, value: \"shop/app:1.0,quay.io/shop/side:v2\"}\n",
			"kind: Pod\napiVersion: v1\nspec:\n  containers:\n    - name: a\n      image: {2}\n      command: [sh, -c, \"run 'shop/app:1.0' x--image=shop/app:1.0\"]\n      args: ['--worker={2}', --image, '{2}', 'WORKER={2}', --name=shop/app, 'myshop/app:1.0', 'shop/app:1.0x']\n      env:\n        - {name: IMG, value: \"{1}\"}\n        - {name: LIST, value: \"shop/app:1.0,quay.io/shop/side:v2\"}\n",
		},
		"in a command for a shell the values of flags": {
			"kind: Pod\napiVersion: v1\nspec:\n  containers:\n    - name: a\n      image: busybox\n      command:\n        - sh\n        - -c\n        - |\n          exec run -image=\"shop/app:1.0\" \\\n            --side quay.io/shop/side:v2 --x='shop/app:1.0' -log shop/app:1.0x\n          echo shop/app:1.0\n",
			"kind: Pod\napiVersion: v1\nspec:\n  containers:\n    - name: a\n      image: {1}\n      command:\n        - sh\n        - -c\n        - |\n          exec run -image=\"{2}\" \\\n            --side {1} --x='{2}' -log shop/app:1.0x\n          echo shop/app:1.0\n",
		},
		"a ConfigMap: whole texts, never keys, never prose": {
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  worker: shop/app:1.0\n  flag: --worker=shop/app:1.0\n  line: |\n    shop/app:1.0\n  shop/app: none\n  note: see shop/app:1.0\n  word: 'Image: shop/app:1.0'\n  url: https://shop/app:1.0\n  redis: redis\n  image: debug\n",
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  worker: {2}\n  flag: --worker={2}\n  line: |\n    {2}\n  shop/app: none\n  note: see shop/app:1.0\n  word: 'Image: shop/app:1.0'\n  url: https://shop/app:1.0\n  redis: redis\n  image: debug\n",
		},
		"whole texts of the YAML in a ConfigMap, every other byte of it kept": {
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  c.yaml: |\n    # nats: shop/app:1.0\n    image:   shop/app:1.0   # this\n    url: https://shop/app:1.0\n    list: ['é', 'quay.io/shop/side:v2', \"shop/app:1.0\"]\n    ---\n    - --worker=shop/app:1.0\n    - shop/app:1.0 and more\n",
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  c.yaml: |\n    # nats: shop/app:1.0\n    image:   {2}   # this\n    url: https://shop/app:1.0\n    list: ['é', '{1}', \"{2}\"]\n    ---\n    - --worker={2}\n    - shop/app:1.0 and more\n",
		},
		"and of JSON, and in a variable": {
			"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: busybox\n      env:\n        - name: CONFIG\n          value: '{\"a\":{\"image\":\"busybox\",\"n\":1e3}, \"b\":\"shop/app:1.0\"}'\n",
			"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: {1}\n      env:\n        - name: CONFIG\n          value: '{\"a\":{\"image\":\"{1}\",\"n\":1e3}, \"b\":\"{2}\"}'\n",
		},
		"a text that is no YAML, nor any shell's, stays": {
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  c.toml: |\n    [a]\n    image = \"shop/app:1.0\"\n  t.yaml: |\n    {{ if }}\n    image: shop/app:1.0\n",
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  c.toml: |\n    [a]\n    image = \"shop/app:1.0\"\n  t.yaml: |\n    {{ if }}\n    image: shop/app:1.0\n",
		},
		"parts by other names": {
			"apiVersion: shop.example/v1\nkind: Shop\nspec:\n  side:\n    hub: quay.io\n    repository: shop/side\n    tag: v2\n    sha: \"\"\n  other:\n    registry: \"\"\n    repository: quay.io/shop/side\n    tag: v2\n    digest: null\n",
			"apiVersion: shop.example/v1\nkind: Shop\nspec:\n  side:\n    hub: site.example\n    repository: b\n    tag: v2\n    sha: \"" + d1[7:] + "\"\n  other:\n    registry: \"\"\n    repository: site.example/b\n    tag: v2\n    digest: " + d1 + "\n",
		},
		"custom resources: whole, and in parts that have a digest": {
			"apiVersion: shop.example/v1\nkind: Shop\nspec:\n  image: busybox\n  name: busybox\n  side:\n    registry: quay.io\n    repository: shop/side\n    tag: v2\n    digest: \"\"\n",
			"apiVersion: shop.example/v1\nkind: Shop\nspec:\n  image: {1}\n  name: busybox\n  side:\n    registry: site.example\n    repository: b\n    tag: v2\n    digest: \"" + d1 + "\"\n",
		},
		"a definition's default": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  versions:\n    - schema:\n        openAPIV3Schema:\n          properties:\n            image: {type: string, default: shop/app:1.0}\n",
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  versions:\n    - schema:\n        openAPIV3Schema:\n          properties:\n            image: {type: string, default: '{2}'}\n",
		},
		"the items of a list": {
			"apiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: Pod\n    spec:\n      containers:\n        - name: a\n          image: busybox\n",
			"apiVersion: v1\nkind: List\nitems:\n  - apiVersion: v1\n    kind: Pod\n    spec:\n      containers:\n        - name: a\n          image: {1}\n",
		},
		"an encoded Secret": {
			"apiVersion: v1\nkind: Secret\ndata:\n  image: c2hvcC9hcHA6MS4w\n", // shop/app:1.0
			"apiVersion: v1\nkind: Secret\ndata:\n  image: " + base64.StdEncoding.EncodeToString([]byte("site.example/b@"+d2)) + "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := strings.NewReplacer("{1}", "site.example/b@"+d1, "{2}", "site.example/b@"+d2).Replace(tc.to)
			r := rewriter()
			got, err := r.Rewrite("templates/x.yaml", tc.from)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			again, err := rewriter().Rewrite("templates/x.yaml", tc.from)
			if err != nil || again != got {
				t.Errorf("a second time it is another: %v", err)
			}
		})
	}
}

func TestRewriteKeepsBytesOfDocumentsThatDoNotChange(t *testing.T) {
	same := "# Source: a/templates/x.yaml\napiVersion: v1\nkind:   ConfigMap\ndata: {n: 1e3,   b: yes, o: 0123}\n"
	pod := "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: busybox\n"
	r := rewriter()
	got, err := r.Rewrite("t", "---\n"+same+"---\n"+pod+"---\n"+same)
	if err != nil {
		t.Fatal(err)
	}
	want := "---\n" + same + "---\n" + strings.Replace(pod, "busybox", "site.example/b@"+d1, 1) + "---\n" + same
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(r.Changes) != 1 || r.Changes[0].Path != "spec.containers[a].image" {
		t.Errorf("changes: %+v", r.Changes)
	}
}

// kept says what a rewriter could not rewrite.
func kept(r *Rewriter) []string {
	var got []string
	for what, uses := range map[string][]Use{"unknown": r.Unknown, "stuck": r.Stuck, "left": r.Left, "similar": r.Similar} {
		for _, u := range uses {
			got = append(got, what+" "+u.Reference+" "+u.Object+" "+u.Path)
		}
	}
	slices.Sort(got)
	return got
}

func TestWhatCannotBeRewritten(t *testing.T) {
	r := rewriter()
	_, err := r.Rewrite("t", `apiVersion: shop.example/v1
kind: Shop
spec: {image: {repository: quay.io/shop/side, tag: v2}, other: 'ghcr.io/x/y:1'}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: a
    image: 'else/where:1'
    args: [sh, -c, run shop/app:1.0]
    env: [{name: X_IMAGE_REPO, value: quay.io/shop/side}, {name: X_IMAGE_TAG, value: v2}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data:
  note: see shop/app:1.0
  parts.json: '{"image":{"repository":"quay.io/shop/side","tag":"v2"}}'
---
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {hook: 'db.example.com/app:hunter2'}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"left quay.io/shop/side:v2 ConfigMap/c data.parts.json.image",
		"left shop/app:1.0 ConfigMap/c data.note",
		"left shop/app:1.0 Pod/p spec.containers[a].args[2]",
		"similar (secret) Secret/s stringData.hook",
		"similar ghcr.io/x/y:1 Shop/ spec.other",
		"stuck quay.io/shop/side:v2 Pod/p spec.containers[a].env[X_IMAGE_REPO].value",
		"stuck quay.io/shop/side:v2 Shop/ spec.image",
		"unknown else/where:1 Pod/p spec.containers[a].image",
	}
	if diff := cmp.Diff(want, kept(r)); diff != "" {
		t.Error(diff)
	}
	if len(r.Changes) != 0 {
		t.Errorf("changed %+v", r.Changes)
	}
}

// A mirror with a repository and a tag for each image is the way out for what has
// no place for a digest.
func TestPartsWithoutADigestTakeATag(t *testing.T) {
	r := &Rewriter{Locate: func(s string) (string, bool) {
		return "mirror.example/m/" + s + "@" + d1, !strings.HasPrefix(s, "mirror.example")
	}}
	got, err := r.Rewrite("t", `apiVersion: shop.example/v1
kind: Shop
spec: {image: {repository: quay.io/shop/side, tag: v2}, other: {registry: quay.io, name: shop, image: {name: shop/side, tag: 1.5}}}
---
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
spec: {baseImage: quay.io/prometheus/prometheus, version: v2.50.0}
---
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: a
    env: [{name: X_IMAGE_REGISTRY, value: quay.io}, {name: X_IMAGE_REPO, value: shop/side}, {name: X_IMAGE_TAG, value: v2}]
`)
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: shop.example/v1
kind: Shop
spec: {image: {repository: mirror.example/m/quay.io/shop/side, tag: v2}, other: {registry: quay.io, name: shop, image: {name: mirror.example/m/docker.io/shop/side, tag: 1.5}}}
---
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
spec: {baseImage: mirror.example/m/quay.io/prometheus/prometheus, version: v2.50.0}
---
apiVersion: v1
kind: Pod
spec:
  containers:
    - name: a
      env: [{name: X_IMAGE_REGISTRY, value: mirror.example}, {name: X_IMAGE_REPO, value: m/quay.io/shop/side}, {name: X_IMAGE_TAG, value: v2}]
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if left := kept(r); len(left) > 0 {
		t.Errorf("not rewritten: %q", left)
	}
}

func TestTextsOfSecretsAreToldToNobody(t *testing.T) {
	r := rewriter()
	if _, err := r.Rewrite("t", "apiVersion: v1\nkind: Secret\ndata: {a: c2hvcC9hcHA6MS4w}\nstringData: {b.yaml: \"image: shop/app:1.0\\npassword: x\"}\n"); err != nil {
		t.Fatal(err)
	}
	if len(r.Changes) != 2 {
		t.Fatalf("changed %+v", r.Changes)
	}
	for _, c := range r.Changes {
		if c.From != hiddenText || c.To != hiddenText {
			t.Errorf("told %+v", c)
		}
	}
}
