package images

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// found renders what a finder says of one object, a line a use.
func found(t *testing.T, text string) []string {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	o := Object{Content: content, Name: "x"}
	o.APIVersion, _ = content["apiVersion"].(string)
	o.Kind, _ = content["kind"].(string)
	var f Finder
	f.Object(o)
	var lines []string
	for _, use := range f.Uses {
		lines = append(lines, fmt.Sprintf("%s %s %s", use.Confidence, use.Reference, use.Path))
	}
	return lines
}

func pod(rest string) string {
	return "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: c\n" + rest
}

func TestWhereImagesStand(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		want   []string
	}{
		"containers of every sort": {
			"apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: [{name: a, image: busybox}], initContainers: [{name: b, image: 'b:1'}], ephemeralContainers: [{name: c, image: c@sha256:0000000000000000000000000000000000000000000000000000000000000000}]}}}",
			[]string{
				"certain busybox spec.template.spec.containers[a].image",
				"certain c@sha256:0000000000000000000000000000000000000000000000000000000000000000 spec.template.spec.ephemeralContainers[c].image",
				"certain b:1 spec.template.spec.initContainers[b].image",
			},
		},
		"a pod template in a custom workload": {
			"apiVersion: example.com/v1\nkind: Fleet\nspec: {podTemplates: [{name: blue, spec: {containers: [{name: a, image: shop/app}]}}]}",
			[]string{"certain shop/app spec.podTemplates[blue].spec.containers[a].image"},
		},
		"an image as a volume": {
			"apiVersion: v1\nkind: Pod\nspec: {containers: [{name: a, image: 'a:1'}], volumes: [{name: v, image: {reference: quay.io/data/set:v1}}]}",
			[]string{"certain a:1 spec.containers[a].image", "certain quay.io/data/set:v1 spec.volumes[v].image.reference"},
		},
		"arguments: a flag with =, a flag and its value, a shell's text": {
			pod("    command: [sh, -c, 'exec run -worker-image=\"shop/worker:1.0\" -log=debug']\n    args: [--sidecar-image=quay.io/shop/side:v2, --image, redis:7.2, --reloader=quay.io/shop/reloader:v0.1]"),
			[]string{
				"recognised shop/worker:1.0 spec.containers[c].command[2]",
				"recognised quay.io/shop/side:v2 spec.containers[c].args[0]",
				"recognised redis:7.2 spec.containers[c].args[2]",
				"recognised quay.io/shop/reloader:v0.1 spec.containers[c].args[3]",
			},
		},
		"environment: by its name, related images, a whole reference, parts": {
			pod("    env:\n    - {name: WORKER_IMAGE, value: 'shop/worker:2.1'}\n    - {name: RELATED_IMAGE_WEBHOOK, value: 'shop/hook:1'}\n    - {name: RELOADER, value: 'quay.io/shop/reloader:v1'}\n    - {name: AGENT_IMAGE_REPOSITORY, value: quay.io/shop/agent}\n    - {name: AGENT_IMAGE_TAG, value: v3}"),
			[]string{
				"recognised quay.io/shop/agent:v3 spec.containers[c].env[AGENT_IMAGE_REPOSITORY].value",
				"recognised shop/worker:2.1 spec.containers[c].env[WORKER_IMAGE].value",
				"recognised shop/hook:1 spec.containers[c].env[RELATED_IMAGE_WEBHOOK].value",
				"recognised quay.io/shop/reloader:v1 spec.containers[c].env[RELOADER].value",
			},
		},
		"fields of custom resources: whole, in parts, by the table": {
			"apiVersion: monitoring.coreos.com/v1\nkind: Prometheus\nspec: {version: v2.50.0, proxyImage: 'shop/proxy:1', agent: {image: {registry: quay.io, repository: shop/agent, tag: v1}}}",
			[]string{
				"recognised quay.io/prometheus/prometheus:v2.50.0 spec.version",
				"recognised quay.io/shop/agent:v1 spec.agent.image",
				"recognised shop/proxy:1 spec.proxyImage",
			},
		},
		"texts of a ConfigMap: plain, YAML, JSON, a template for a shell": {
			"apiVersion: v1\nkind: ConfigMap\ndata:\n  image: shop/one:1\n  conf.yaml: |\n    versions: [{natsImage: 'nats:2.8.1'}]\n  c.json: '{\"sidecar\": \"quay.io/shop/two:v2\"}'\n  t.sh: |\n    {{ if .X }}\n    image: shop/three:1.2\n    {{ end }}\n",
			[]string{
				"candidate quay.io/shop/two:v2 data.c.json.sidecar",
				"recognised nats:2.8.1 data.conf.yaml.versions[0].natsImage",
				"recognised shop/one:1 data.image",
				"recognised shop/three:1.2 data.t.sh",
			},
		},
		"a Secret's data": {
			"apiVersion: v1\nkind: Secret\ndata: {conf: aW1hZ2U6IHNob3Avb25lOjEK}\nstringData: {image: 'shop/two:1'}",
			[]string{"recognised shop/one:1 data.conf.image", "recognised shop/two:1 stringData.image"},
		},
		"the default of a definition": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {versions: [{name: v1, schema: {openAPIV3Schema: {properties: {image: {type: string, default: 'quay.io/shop/op:v1'}, log: {default: debug}}}}}]}",
			[]string{"candidate quay.io/shop/op:v1 spec.versions[v1].schema.openAPIV3Schema.properties.image.default"},
		},
		"an annotation": {
			"apiVersion: v1\nkind: Service\nmetadata: {annotations: {example.com/proxyImage: 'shop/proxy:1.0', note: hello}}",
			[]string{"recognised shop/proxy:1.0 metadata.annotations.example.com/proxyImage"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, found(t, tc.object)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// None of these is an image, and none may be a candidate.
func TestWhatIsNoImage(t *testing.T) {
	for name, object := range map[string]string{
		"words and numbers":        pod("    args: [--log-level=debug, --port=8080, info, --addr=:9090, --v=2]\n    env: [{name: LOG_LEVEL, value: debug}, {name: PORT, value: '8080'}]"),
		"hosts and ports":          pod("    args: [--redis=redis:6379, --db=postgres.db.svc:5432, --url=http://a.example.com/b:c]\n    env: [{name: REDIS, value: 'redis:6379'}]"),
		"paths":                    pod("    args: [--config=/etc/app/config.yaml, etc/app, --cert=/tls/tls.crt]"),
		"how images are pulled":    pod("    env: [{name: IMAGE_PULL_POLICY, value: Always}, {name: IMAGE_TAG, value: v1.0.0}, {name: IMAGE_PULL_SECRET, value: regcred}]"),
		"a tag that is none":       "apiVersion: fluentbit.fluent.io/v1alpha2\nkind: ClusterInput\nspec: {tail: {tag: 'kube.*'}, systemd: {tag: 'service.*'}}",
		"a registry that is none":  "apiVersion: example.com/v1\nkind: DNS\nspec: {registry: txt, tag: owner}",
		"groups and versions":      "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:node'}\nsubjects: [{kind: Group, name: 'system:masters'}]",
		"a digest of something":    "apiVersion: v1\nkind: ConfigMap\ndata: {checksum: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}",
		"a name under a image key": "apiVersion: example.com/v1\nkind: Camera\nspec: {image: debug}",
	} {
		t.Run(name, func(t *testing.T) {
			for _, line := range found(t, object) {
				t.Errorf("found %s", line)
			}
		})
	}
}

func TestKeysThatNameImages(t *testing.T) {
	for key, want := range map[string]bool{
		"image": true, "images": true, "natsImage": true, "imageName": true, "--worker-image": true, "RELATED_IMAGE_X": true, "JOB_IMAGE": true, "sidecarImageURL": true, "container_image": true,
		"imagePullPolicy": false, "IMAGE_TAG": false, "imagePullSecrets": false, "imageRegistry": false, "imagine": false, "logLevel": false, "": false,
	} {
		if got := namesImage(key); got != want {
			t.Errorf("namesImage(%q) = %v", key, got)
		}
	}
}

func TestTableOfKindsIsSound(t *testing.T) {
	for _, row := range kinds() {
		if row.Group == "" || row.Kind == "" || row.Image == "" && row.Repository == "" && row.Default == "" {
			t.Errorf("row %+v says too little", row)
		}
	}
}
