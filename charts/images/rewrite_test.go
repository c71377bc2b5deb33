package images

import (
	"encoding/base64"
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
		"arguments and environment": {
			"kind: Pod\napiVersion: v1\nspec:\n  containers:\n    - name: a\n      image: shop/app:1.0\n      command: [sh, -c, \"run --image 'shop/app:1.0' myshop/app:1.0 shop/app:1.0x\"]\n      args: [--worker=shop/app:1.0, --image, shop/app:1.0, --name=shop/app]\n      env:\n        - {name: IMG, value: \"quay.io/shop/side:v2\"}\n        - {name: LIST, value: \"shop/app:1.0,quay.io/shop/side:v2\"}\n",
			"kind: Pod\napiVersion: v1\nspec:\n  containers:\n    - name: a\n      image: {2}\n      command: [sh, -c, \"run --image '{2}' myshop/app:1.0 shop/app:1.0x\"]\n      args: ['--worker={2}', --image, '{2}', --name=shop/app]\n      env:\n        - {name: IMG, value: \"{1}\"}\n        - {name: LIST, value: \"{2},{1}\"}\n",
		},
		"a ConfigMap's text keeps its shape": {
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  c.yaml: |\n    # nats\n    image: shop/app:1.0\n    url: https://shop/app:1.0\n    redis: redis:7.2\n",
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  c.yaml: |\n    # nats\n    image: {2}\n    url: https://shop/app:1.0\n    redis: {2}\n",
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

func TestWhatCannotBeRewritten(t *testing.T) {
	r := rewriter()
	_, err := r.Rewrite("t", "apiVersion: shop.example/v1\nkind: Shop\nspec: {image: {repository: quay.io/shop/side, tag: v2}, other: 'ghcr.io/x/y:1'}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: 'else/where:1', env: [{name: X_IMAGE_REPO, value: quay.io/shop/side}, {name: X_IMAGE_TAG, value: v2}]}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range r.Unknown {
		got = append(got, "unknown "+u.Reference+" "+u.Object+" "+u.Path)
	}
	for _, u := range r.Stuck {
		got = append(got, "stuck "+u.Reference+" "+u.Object+" "+u.Path)
	}
	for _, u := range r.Similar {
		got = append(got, "similar "+u.Reference+" "+u.Object+" "+u.Path)
	}
	want := []string{
		"unknown else/where:1 Pod/p spec.containers[a].image",
		"stuck quay.io/shop/side:v2 Shop/ spec.image",
		"stuck quay.io/shop/side:v2 Pod/p spec.containers[a].env[X_IMAGE_REPO].value",
		"similar ghcr.io/x/y:1 Shop/ spec.other",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(r.Changes) != 0 {
		t.Errorf("changed %+v", r.Changes)
	}
}
