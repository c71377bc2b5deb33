package charts

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill/charts/images"
	"waybill/internal/ref"
)

const imagesChart = `
-- Chart.yaml --
apiVersion: v2
name: shop
version: 1.0.0
appVersion: "1"
annotations:
  images: |
    - {name: tool, image: "quay.io/shop/tool:{{ .Chart.AppVersion }}"}
  example.com/images: "shop/a:1, shop/b:2"
-- Images.lock --
images: [{name: pinned, image: "quay.io/shop/pinned:3"}]
-- values.yaml --
image: {repository: shop/web, tag: ""}
side: {enabled: false, image: {repository: shop/side, tag: 2.10}}
old: {image: "shop/old:1"}
-- crds/thing.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.shop.example}
spec: {versions: [{name: v1, schema: {openAPIV3Schema: {properties: {image: {default: "shop/thing:1"}}}}}]}
-- templates/web.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: web
        image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.Version }}
      {{- if .Capabilities.APIVersions.Has "monitoring.example/v1" }}
      - name: metrics
        image: {{ if semverCompare ">=1.29-0" .Capabilities.KubeVersion.Version }}shop/metrics:new{{ else }}shop/metrics:old{{ end }}
      {{- end }}
-- templates/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {otherImage: quay.io/shop/other}
-- templates/hook.yaml --
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {helm.sh/hook: pre-install}}
spec: {template: {spec: {containers: [{name: a, image: "shop/migrate:1"}]}}}
-- templates/test.yaml --
apiVersion: v1
kind: Pod
metadata: {name: check, annotations: {helm.sh/hook: test}}
spec: {containers: [{name: a, image: busybox}]}
`

func foundIn(t *testing.T, chart *Chart, renders ...RenderOptions) []string {
	t.Helper()
	found, err := chart.FindImages(renders)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, image := range found {
		lines = append(lines, fmt.Sprintf("%s %s %d", image.Confidence, image.Normalized, len(image.Uses)))
	}
	return lines
}

func TestImagesOfAChart(t *testing.T) {
	chart := fromText(t, imagesChart)
	want := []string{
		"certain docker.io/library/busybox:latest 1",
		"certain docker.io/shop/a:1 1",
		"certain docker.io/shop/b:2 1",
		"certain docker.io/shop/migrate:1 1",
		"candidate docker.io/shop/old:1 1",
		"candidate docker.io/shop/side:2.1 1", // as Helm reads 2.10
		"candidate docker.io/shop/thing:1 1",
		"certain docker.io/shop/web:1.0.0 1",
		"candidate quay.io/shop/other:latest 1",
		"certain quay.io/shop/pinned:3 1",
		"certain quay.io/shop/tool:1 1",
	}
	if diff := cmp.Diff(want, foundIn(t, chart, RenderOptions{KubeVersion: "1.28.0"})); diff != "" {
		t.Error(diff)
	}
	// Each rendering adds what it alone has; values of the release replace those of the chart.
	values := map[string]any{"old": map[string]any{"image": ""}, "side": map[string]any{"image": map[string]any{"tag": "9"}}}
	want = append(want[:3], "certain docker.io/shop/metrics:new 1", "certain docker.io/shop/metrics:old 1", "certain docker.io/shop/migrate:1 1",
		"candidate docker.io/shop/side:9 1", "candidate docker.io/shop/thing:1 1", "certain docker.io/shop/web:1.0.0 1",
		"candidate quay.io/shop/other:latest 1", "certain quay.io/shop/pinned:3 1", "certain quay.io/shop/tool:1 1")
	got := foundIn(t, chart,
		RenderOptions{KubeVersion: "1.28.0", Values: values, APIVersions: []string{"monitoring.example/v1"}},
		RenderOptions{KubeVersion: "1.30.0", Values: values, APIVersions: []string{"monitoring.example/v1"}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestChartsWithoutImages(t *testing.T) {
	const head = "\n-- Chart.yaml --\napiVersion: v2\nname: c\nversion: 1.0.0\n"
	const pod = "-- templates/p.yaml --\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: a, image: %s}]}\n"
	for name, tc := range map[string]struct {
		chart string
		fails bool
	}{
		"no image at all":                               {fmt.Sprintf(head+pod, `""`), true},
		"an image that is none":                         {fmt.Sprintf(head+pod, `":latest"`), true},
		"one that is put in later":                      {fmt.Sprintf(head+pod, "auto"), false},
		"definitions alone":                             {head + "-- crds/t.yaml --\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n", false},
		"a custom resource with a patch of a container": {head + "-- templates/x.yaml --\napiVersion: shop.example/v1\nkind: Shop\nspec: {containers: [{name: a, args: [x]}]}\n", false},
		"nothing": {head + "-- templates/x.yaml --\n\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := fromText(t, tc.chart).FindImages([]RenderOptions{{}})
			if missing := new(NoImageError); errors.As(err, &missing) != tc.fails || err != nil && !tc.fails {
				t.Errorf("found %v, %v", found, err)
			}
		})
	}
	var none *LibraryError
	if _, err := fromText(t, head+"type: library\n").FindImages([]RenderOptions{{}}); !errors.As(err, &none) {
		t.Errorf("a library chart: %v", err)
	}
}

func TestTheSurestUseDecides(t *testing.T) {
	all := newUnion()
	for _, sure := range []images.Confidence{images.Candidate, images.Certain, images.Recognised} {
		all.add(RenderedUse{Use: images.Use{Normalized: "docker.io/a/b:1", Confidence: sure, Path: string(sure)}})
	}
	if list := all.list(); len(list) != 1 || list[0].Confidence != images.Certain || len(list[0].Uses) != 3 {
		t.Errorf("%+v", list)
	}
}

// Values leave registry and tag to the templates; what a rendering names then is
// no candidate too.
func TestValuesOfWhatIsRendered(t *testing.T) {
	all := newUnion()
	for _, name := range []string{"quay.io/shop/web:1.0", "mirror.example/shop/side:2", "registry.example/shop/job:3"} {
		all.add(RenderedUse{Use: images.Use{Normalized: name, Path: name}})
	}
	there := all.rendered()
	for reference, want := range map[string]bool{
		"quay.io/shop/web:1.0":   true,
		"quay.io/shop/web":       true,  // the tag is the chart's version
		"quay.io/shop/web:0.9":   false, // another version, of a part that is off
		"docker.io/shop/side:2":  true,  // from another registry
		"docker.io/shop/side":    true,
		"shop/job:3":             true, // the registry stands elsewhere
		"shop/job:latest":        false,
		"quay.io/other/web:1.0":  false,
		"quay.io/shop/web2:1.0":  false,
		"registry.example/job:3": false,
	} {
		normalized, err := ref.Normalize(reference)
		if err != nil {
			t.Fatal(err)
		}
		if got := there.has(images.Use{Reference: reference, Normalized: normalized}); got != want {
			t.Errorf("%s: %v", reference, got)
		}
	}
}
