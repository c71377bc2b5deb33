package images

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A pull secret is attached where pods are for certain, once.
func TestPullSecretIsAttached(t *testing.T) {
	for name, tc := range map[string]struct{ from, to string }{
		"a pod": {
			"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: busybox\n",
			"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: a\n      image: {1}\n  imagePullSecrets:\n    - name: harbor\n",
		},
		"a job's template, beside another secret": {
			"apiVersion: batch/v1\nkind: CronJob\nspec:\n  jobTemplate:\n    spec:\n      template:\n        spec:\n          imagePullSecrets: [{name: mine}]\n          containers: [{name: a, image: busybox}]\n",
			"apiVersion: batch/v1\nkind: CronJob\nspec:\n  jobTemplate:\n    spec:\n      template:\n        spec:\n          imagePullSecrets: [{name: mine}, {name: harbor}]\n          containers: [{name: a, image: '{1}'}]\n",
		},
		"there already": {
			"apiVersion: v1\nkind: Pod\nspec:\n  imagePullSecrets: [{name: harbor}]\n  containers: []\n",
			"apiVersion: v1\nkind: Pod\nspec:\n  imagePullSecrets: [{name: harbor}]\n  containers: []\n",
		},
		"null": {
			"apiVersion: v1\nkind: ServiceAccount\nimagePullSecrets: null\n",
			"apiVersion: v1\nkind: ServiceAccount\nimagePullSecrets:\n  - name: harbor\n",
		},
		"a ServiceAccount": {
			"apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: a\n",
			"apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: a\nimagePullSecrets:\n  - name: harbor\n",
		},
		"a custom resource with a pod template": {
			"apiVersion: shop.example/v1\nkind: Shop\nspec:\n  podTemplate:\n    spec:\n      containers:\n        - name: a\n          image: busybox\n",
			"apiVersion: shop.example/v1\nkind: Shop\nspec:\n  podTemplate:\n    spec:\n      containers:\n        - name: a\n          image: {1}\n      imagePullSecrets:\n        - name: harbor\n",
		},
		"a custom resource with the field": {
			"apiVersion: shop.example/v1\nkind: Shop\nspec:\n  imagePullSecrets: []\n  containers:\n    - name: a\n      image: busybox\n",
			"apiVersion: shop.example/v1\nkind: Shop\nspec:\n  imagePullSecrets: [{name: harbor}]\n  containers:\n    - name: a\n      image: {1}\n",
		},
		"not a custom resource that may have no such field": {
			"apiVersion: shop.example/v1\nkind: Shop\nspec:\n  containers:\n    - name: a\n      image: busybox\n",
			"apiVersion: shop.example/v1\nkind: Shop\nspec:\n  containers:\n    - name: a\n      image: {1}\n",
		},
		"not what has no pods": {
			"apiVersion: v1\nkind: ConfigMap\ndata:   {a: b}\n",
			"apiVersion: v1\nkind: ConfigMap\ndata:   {a: b}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rewriter()
			r.PullSecret = "harbor"
			got, err := r.Rewrite("t", tc.from)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.ReplaceAll(tc.to, "{1}", "site.example/b@"+d1), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNamespacesOfPods(t *testing.T) {
	r := rewriter()
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {namespace: far}\nspec: {containers: [{name: a, image: busybox}]}\n"
	if _, err := r.Rewrite("t", pod+"---\n"+strings.Replace(pod, "far", "''", 1)+"---\n"+pod+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: other}\n"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"far", ""}, r.Namespaces); diff != "" {
		t.Error(diff)
	}
}
