package images

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill/internal/ref"
)

func resource(spec string) string {
	return "apiVersion: shop.example/v1\nkind: Shop\nspec:\n" + indented(spec)
}

func config(key, text string) string {
	return "apiVersion: v1\nkind: ConfigMap\ndata:\n  " + key + ": |\n" + indented(indented(text))
}

func indented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("  " + line)
	}
	return out.String() + "\n"
}

// A convention is how operators and platforms are told which images to run.
type convention struct {
	object string
	want   []string
}

func conventions() map[string]convention {
	const sum = "0123456789012345678901234567890123456789012345678901234567890123"
	return map[string]convention{
		"a list of images by version, in one variable": {
			pod("    env:\n    - name: BROKER_IMAGES\n      value: |\n        3.8.0=shop/broker:0.44.0\n        3.9.0=quay.io/shop/broker:0.45.0\n"),
			[]string{"recognised shop/broker:0.44.0", "recognised quay.io/shop/broker:0.45.0"},
		},
		"images between commas": {
			pod("    env: [{name: PRELOAD_IMAGES, value: 'shop/a:1.0,shop/b:2.0'}]\n    args: ['--images=shop/c:1.0,shop/d:2.0']"),
			[]string{"recognised shop/c:1.0", "recognised shop/d:2.0", "recognised shop/a:1.0", "recognised shop/b:2.0"},
		},
		"a bare major version": {
			pod("    env: [{name: DB_IMAGE, value: 'postgres:16'}]\n    args: [--cache-image=redis:7, --db=postgres:16]"),
			[]string{"recognised redis:7", "recognised postgres:16"},
		},
		"image first in the name": {
			pod("    env: [{name: IMAGE_AGENT, value: 'shop/agent:1.0'}]\n    args: [-shell-image-win, 'shop/shell:1.0']"),
			[]string{"recognised shop/shell:1.0", "recognised shop/agent:1.0"},
		},
		"variables in parts: name and tag, image and version, repository and version": {
			pod("    env:\n    - {name: HELPER_IMAGE_NAME, value: shop/helper}\n    - {name: HELPER_IMAGE_TAG, value: '1.0'}\n" +
				"    - {name: SIDE_IMAGE, value: quay.io/shop/side}\n    - {name: SIDE_VERSION, value: v2}\n" +
				"    - {name: INIT_DB_IMAGE_REPOSITORY, value: quay.io/shop/init}\n    - {name: INIT_DB_VERSION, value: v3}\n"),
			[]string{"recognised shop/helper:1.0", "recognised quay.io/shop/init:v3", "recognised quay.io/shop/side:v2"},
		},
		"variables in parts with one registry for all": {
			pod("    env:\n    - {name: IMAGE_REGISTRY, value: quay.io/shop}\n    - {name: A_IMAGE, value: a}\n    - {name: A_TAG, value: '1.0'}\n    - {name: B_IMAGE, value: b}\n    - {name: B_TAG, value: '2.0'}\n"),
			[]string{"recognised quay.io/shop/a:1.0", "recognised quay.io/shop/b:2.0"},
		},
		"a repository and an image without a tag": {
			pod("    env: [{name: DB_REPO_URL, value: quay.io/shop}, {name: DB_IMAGE, value: db-server}]\n"),
			[]string{"candidate quay.io/shop/db-server"},
		},
		"flags in parts": {
			pod("    args: [--agent-image-repository=quay.io/shop/agent, --agent-image-tag, v1.2]"),
			[]string{"recognised quay.io/shop/agent:v1.2"},
		},
		"parameters of a custom resource": {
			resource("params:\n- {name: worker-image, value: 'shop/worker:1.0'}\n- {name: level, value: debug}\n- {name: BUILDER_IMAGE, default: 'shop/builder:2'}\n- {key: images.base, value: 'shop/base:3'}\n"),
			[]string{"recognised shop/worker:1.0", "recognised shop/builder:2", "recognised shop/base:3"},
		},
		"arguments of a custom resource": {
			resource("extraArgs: [--v=2, --helper-image=shop/helper:1.0]\n"),
			[]string{"recognised shop/helper:1.0"},
		},
		"repository, image and version": {
			resource("driver: {repository: registry.example/gpu, image: driver, version: '550.1'}\ntool: {repository: registry.example/gpu, image: tool, version: 'sha256:" + sum + "'}\noff: {repository: '', image: manager, version: ''}\n"),
			[]string{"recognised registry.example/gpu/driver:550.1", "recognised registry.example/gpu/tool@sha256:" + sum},
		},
		"image and tag, name and version, tag with digest": {
			resource("a: {image: quay.io/shop/a, tag: v1}\nimage: {name: quay.io/shop/b, version: v2}\nc: {image: {repository: quay.io/shop/c, tag: 'v3@sha256:" + sum + "'}}\n"),
			[]string{"recognised quay.io/shop/a:v1", "recognised quay.io/shop/c:v3@sha256:" + sum, "recognised quay.io/shop/b:v2"},
		},
		"image and its default version": {
			config("servers", `{"SK_SERVER": {"protocols": {"v2": {"image": "shop/ml", "defaultImageVersion": "1.3.5"}}}}`),
			[]string{"recognised shop/ml:1.3.5"},
		},
		"names run together, and img": {
			pod("    env: [{name: BASEIMAGE, value: 'shop/base:1.0'}, {name: SIDE_IMG, value: 'shop/side:1.0'}]\n    args: [-pauseimage, 'shop/pause:3']"),
			[]string{"recognised shop/pause:3", "recognised shop/base:1.0", "recognised shop/side:1.0"},
		},
		"a path with a version in an argument": {
			pod("    args: [--reloader=shop/reloader:v0.5.0, --agent, 'shop/agent:1.2']\n"),
			[]string{"recognised shop/reloader:v0.5.0", "recognised shop/agent:1.2"},
		},
		"flat keys in parts": {
			resource("imageRepository: quay.io/shop/a\nimageTag: v1\nproxyImage: quay.io/shop/proxy\nproxyImageTag: v2\n"),
			[]string{"recognised quay.io/shop/a:v1", "recognised quay.io/shop/proxy:v2"},
		},
		"images by name": {
			resource("releases: [{version: '8', images: {server: 'shop/server:8.0', init: shop/init:1.0}}]\n"),
			[]string{"recognised shop/init:1.0", "recognised shop/server:8.0"},
		},
		"a whole reference with host and version in a custom resource": {
			resource("agent: ghcr.io/shop/agent:v1.2\n"),
			[]string{"recognised ghcr.io/shop/agent:v1.2"},
		},
		"YAML and text for a shell in a custom resource": {
			resource("values: |\n  server:\n    image: {repository: quay.io/shop/s, tag: v1}\nhook: |\n  set -e\n  docker run quay.io/shop/tool:v2\n"),
			[]string{"candidate quay.io/shop/tool:v2", "recognised quay.io/shop/s:v1"},
		},
		"a container by its shape: a step and a script": {
			resource("steps: [{name: a, image: alpine, command: [sh]}]\ntemplates: [{name: t, container: {image: busybox, args: [x]}}, {name: s, script: {image: 'python:3', source: print}}]\n"),
			[]string{"certain alpine", "certain busybox", "certain python:3"},
		},
		"a pod template in a ConfigMap": {
			config("pod.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: base\n    image: busybox\n    env: [{name: SIDE_IMAGE, value: 'shop/side:1.0'}]\n"),
			[]string{"recognised busybox", "recognised shop/side:1.0"},
		},
		"many documents in a ConfigMap": {
			config("all.yaml", "a: 1\n---\nimage: shop/a:1.0\n---\n- image: shop/b:1.0\n"),
			[]string{"recognised shop/a:1.0", "recognised shop/b:1.0"},
		},
		"TOML, INI and properties": {
			config("c.toml", "[runner]\n  image = \"alpine\"\n  helper_image = \"shop/helper:1.0\"\n[worker]\nworker_container_repository = shop/worker\nworker_container_tag = 2.9\n"),
			[]string{"candidate alpine", "recognised shop/helper:1.0", "candidate shop/worker:2.9"},
		},
		"parts in a text that is a template": {
			config("t.yaml", "{{ if .On }}\na:\n  repository: quay.io/shop/a\n  tag: v1\n{{ end }}\nb:\n  repository: quay.io/shop/b\n  tag: v2\n"),
			[]string{"recognised quay.io/shop/a:v1", "recognised quay.io/shop/b:v2"},
		},
		"keys of a ConfigMap in parts": {
			"apiVersion: v1\nkind: ConfigMap\ndata: {scan.repository: mirror.example/sec/scan, scan.tag: '0.58', scan.dbRepository: mirror.example/sec/scan-db, nodeCollector.imageRef: 'quay.io/sec/node:0.3'}\n",
			[]string{"recognised mirror.example/sec/scan:0.58", "recognised quay.io/sec/node:0.3"},
		},
		"a registry and tag that maps around say": {
			config("values", `{"global": {"hub": "docker.io/mesh", "tag": "1.24.0", "proxy": {"image": "proxy", "level": "warning"}, "init": {"image": "proxy-init", "tag": "2.0"}}}`),
			[]string{"candidate docker.io/mesh/proxy:1.24.0", "recognised docker.io/mesh/proxy-init:2.0"},
		},
		"a base and components": {
			config("images.yaml", "base: quay.io/data\ncomponents:\n  server: {tag: v1.29, image: server, match: [{osImage: Red Hat, image: server-rh}]}\n"),
			[]string{"recognised quay.io/data/server:v1.29", "candidate quay.io/data/server-rh:v1.29"},
		},
		"a registry for all containers of a custom resource": {
			resource("containerRegistry: quay.io\napi: {image: {name: shop/api, tag: '1.5'}}\nworker: {registry: registry.example, image: 'shop/worker:2.0'}\n"),
			[]string{"recognised quay.io/shop/api:1.5", "recognised registry.example/shop/worker:2.0"},
		},
		"images of each part": {
			resource("images: {agent: {repository: quay.io/shop/agent, tag: v1}}\nimage: {main: 'shop/main:1.0', init: 'shop/init:2.0'}\n"),
			[]string{"recognised quay.io/shop/agent:v1", "recognised shop/init:2.0", "recognised shop/main:1.0"},
		},
		"a repository and version that nothing calls an image": {
			resource("repository: shop/db\nversion: 5.4.0\n"),
			[]string{"candidate shop/db:5.4.0"},
		},
		"kinds of the table: a version alone, a version that may be an image": {
			"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: grafana.integreatly.org/v1beta1, kind: Grafana, spec: {version: 11.3.0}}\n- {apiVersion: grafana.integreatly.org/v1beta1, kind: Grafana, spec: {version: 'quay.io/shop/grafana:1.0'}}\n- {apiVersion: scylla.scylladb.com/v1, kind: ScyllaCluster, spec: {repository: quay.io/shop/scylla, version: 6.0.1, agentVersion: 3.2.0}}\n",
			[]string{"recognised docker.io/grafana/grafana:11.3.0", "recognised docker.io/scylladb/scylla-manager-agent:3.2.0", "recognised quay.io/shop/grafana:1.0", "candidate quay.io/shop/scylla:6.0.1", "recognised quay.io/shop/scylla:6.0.1"},
		},
		"JSON indented with tabs": {
			config("c.json", "{\n\t\"image\": \"shop/a:1.0\"\n}\n"),
			[]string{"recognised shop/a:1.0"},
		},
		"names and tags in a Secret's values": {
			"apiVersion: v1\nkind: Secret\nstringData:\n  values.yaml: |\n    user: {image: {name: quay.io/hub/user, tag: 4.0.0}}\n",
			[]string{"recognised quay.io/hub/user:4.0.0"},
		},
		"defaults of a definition in parts": {
			"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {versions: [{name: v1, schema: {openAPIV3Schema: {properties: {image: {properties: {repository: {default: quay.io/shop/op}, tag: {default: v1}}, default: {}}, side: {default: {image: 'shop/side:1.0'}}}}}}]}",
			[]string{"candidate quay.io/shop/op:v1", "candidate shop/side:1.0"},
		},
		"an image that a webhook puts in is none": {
			"apiVersion: v1\nkind: Pod\nspec: {containers: [{name: proxy, image: auto}]}",
			nil,
		},
	}
}

func TestConventions(t *testing.T) {
	for name, tc := range conventions() {
		t.Run(name, func(t *testing.T) {
			got := foundShort(t, tc.object)
			slices.Sort(got)
			slices.Sort(tc.want)
			if diff := cmp.Diff(tc.want, slices.Compact(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// foundShort is found without the places.
func foundShort(t *testing.T, object string) []string {
	t.Helper()
	var short []string
	for _, line := range found(t, object) {
		words := strings.Fields(line)
		short = append(short, words[0]+" "+words[1])
	}
	return short
}

// What is found is rewritten when it is locked, and what is not, is said.
func TestWhatIsFoundIsRewritten(t *testing.T) {
	const moved = "mirror.example/m/"
	// With what their operator adds, in two flags, in longer texts that are neither
	// YAML nor a command, or with a registry that others share.
	left := map[string]string{
		"kinds of the table: a version alone, a version that may be an image": "docker.io/grafana/grafana:11.3.0",
		"a registry for all containers of a custom resource":                  "quay.io/shop/api:1.5",
		"TOML, INI and properties":                                            "shop/helper:1.0",
		"a base and components":                                               "quay.io/data/server:v1.29",
		"YAML and text for a shell in a custom resource":                      "quay.io/shop/tool:v2",
		"a registry and tag that maps around say":                             "docker.io/mesh/proxy:1.24.0",
		"defaults of a definition in parts":                                   "quay.io/shop/op:v1",
		"a repository and an image without a tag":                             "quay.io/shop/db-server",
		"flags in parts":                                                      "quay.io/shop/agent:v1.2",
		"parts in a text that is a template":                                  "quay.io/shop/a:v1",
	}
	for name, tc := range conventions() {
		t.Run(name, func(t *testing.T) {
			locked := map[string]bool{}
			for _, line := range foundShort(t, tc.object) {
				normalized, err := ref.Normalize(strings.Fields(line)[1])
				if err != nil {
					t.Fatal(err)
				}
				locked[normalized] = true
			}
			r := &Rewriter{Locate: func(s string) (string, bool) {
				name, _, _ := strings.Cut(s, "@")
				return moved + name + "@" + d1, locked[s]
			}}
			got, err := r.Rewrite("t", tc.object)
			if err != nil {
				t.Fatal(err)
			}
			said := map[string]bool{}
			for _, use := range slices.Concat(r.Left, r.Stuck, r.Unknown) {
				said[use.Reference] = true
			}
			for _, line := range foundShort(t, got) {
				reference := strings.Fields(line)[1]
				if !strings.HasPrefix(reference, moved) && !said[reference] {
					t.Errorf("%s is neither rewritten nor said, in\n%s", line, got)
				}
			}
			if want := left[name]; want == "" && len(said) > 0 || want != "" && !said[want] {
				t.Errorf("left as they are: %v, want %q", said, want)
			}
		})
	}
}

// Texts that read as references and are something else: none of them is
// certain or recognised, and those that plainly are none are not even candidates.
func TestLookAlikes(t *testing.T) {
	for name, tc := range map[string]struct {
		object string
		want   []string
	}{
		"hosts, ports and services":          {pod("    args: [--redis=redis:6379, --svc=default/web:8080, --a=localhost:8080, '--b=[::1]:80', --c=10.0.0.0/8, --d=cache.db.svc.cluster.local:11211, '--e=db:5432/shop']\n"), nil},
		"taints and kinds":                   {pod("    args: ['--taint=node.example.com/gpu:NoSchedule', '--w=apps/v1:Deployment', '--m=monitoring.example.com/v1:ServiceMonitor', '--t=node.kubernetes.io/not-ready:NoExecute']\n"), nil},
		"labels":                             {pod("    args: ['--label=corp.example/team:ops', '--pool=corp.example/pool:blue']\n"), []string{"candidate corp.example/team:ops", "candidate corp.example/pool:blue"}},
		"files and fields":                   {resource("image: logo.png\nimages: [parameter.image, img/disk.qcow2]\n"), nil},
		"images that are let in or kept out": {resource("exemptImages: ['quay.io/shop/a:v1']\nverify: {imageReferences: ['ghcr.io/shop/b:v1.0']}\n"), []string{"candidate quay.io/shop/a:v1", "candidate ghcr.io/shop/b:v1.0"}},
		"addresses":                          {resource("url: ghcr.io/shop/filter:v1.0\n"), []string{"candidate ghcr.io/shop/filter:v1.0"}},
		"a sentence":                         {resource("image: some words about it\nimages: |\n  none of\n  these\n"), nil},
		"groups, labels and titles":          {pod("    args: ['--runtime-config=api/all:true', '--selector=app:v1.0']\n    env: [{name: TAGS, value: 'env:prod version:1.2.3'}]\n"), nil},
		"titles":                             {config("dashboard.json", `{"panels": [{"title": "rate:1.5", "content": "see shop/dash:1.0", "expr": "sum(a:1.5)"}]}`), []string{"candidate shop/dash:1.0"}},
		"times, ratios, selectors":           {pod("    args: ['--at=12:30', --tier=app:web, '--ratio=1:2']\n"), nil},
		"sources of code":                    {resource("git: {repository: org/code, tag: v1.0}\nrepo: github.com/org/code:v1\nmodule: github.com/org/code/v2\n"), []string{"candidate org/code:v1.0"}},
		"charts":                             {resource("chart: {repository: bitnami, name: redis, version: 1.0.0}\nsource: {repository: 'https://charts.example', version: 1.2.3}\nurl: 'oci://ghcr.io/shop/charts/app:1.0'\n"), nil},
		"artifacts by their key":             {pod("    args: [--policy-bundle=ghcr.io/shop/policies:1.0]\n    env: [{name: DB_REPOSITORY, value: 'ghcr.io/shop/scan-db:2'}]\n"), []string{"candidate ghcr.io/shop/policies:1.0", "candidate ghcr.io/shop/scan-db:2"}},
		"artifacts by the words before":      {pod("    args: [artifact, install, 'ghcr.io/shop/rules:1.0']\n"), []string{"candidate ghcr.io/shop/rules:1.0"}},
		"packages of a custom resource":      {resource("package: ghcr.io/shop/provider:v1.0\n"), []string{"candidate ghcr.io/shop/provider:v1.0"}},
		"plugins and versions":               {config("plugins.txt", "git:5.7.0\nkubernetes:4306.v1\n"), nil},
		"choices under a key of images":      {resource("image: debug\nimages: [auto]\nimageName: latest\n"), nil},
		"how images are made or kept":        {pod("    env: [{name: IMAGE_GC_SERVER, value: 'gc:dev'}, {name: IMAGE_REGISTRY, value: quay.io/shop}, {name: IMAGE_SCAN_HOST, value: 'scan/er:v1'}]\n"), []string{"candidate scan/er:v1"}},
		"expressions":                        {resource("groups: [{rules: [{record: 'node:cpu:sum', expr: 'sum(a:b) by (x)', message: 'run quay.io/shop/x:v1 now'}]}]\n"), nil},
		"types, ARNs, pointers, cron":        {pod("    args: [--accept=application/json, '--role=arn:aws:iam::1:role/x', --p=/spec/image, '--cron=0 3 * * *', --class=kubernetes.io/aws-ebs]\n"), nil},
		"secrets and roles":                  {"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nrules: [{apiGroups: [''], resources: [pods/log], resourceNames: ['a:b']}]", nil},
		"templates left over":                {config("t", "image: {{ .Values.image }}:{{ .Values.tag }}\nother: ${REGISTRY}/a:1\nlast: <image>/x:y\n"), nil},
		"a version that is a range":          {resource("image: quay.io/shop/a\nversion: '>=1.0'\n"), []string{"candidate quay.io/shop/a"}},
		"a repository without version":       {resource("repository: quay.io/shop/a\n"), nil},
		"names of objects":                   {pod("    args: [--config-map=kube-system/settings, --lease=kube-system/lock:leader]\n"), []string{"candidate kube-system/lock:leader"}},
		"a service under the key of images":  {pod("    env: [{name: IMAGE_SERVER_URL, value: 'http://images:8080'}]\n"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := foundShort(t, tc.object)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
