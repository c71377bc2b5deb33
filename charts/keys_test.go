package charts

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const keysChart = `
-- Chart.yaml --
apiVersion: v2
name: keys
version: 1.0.0
dependencies:
- {name: db, version: 1.x, alias: store, condition: store.enabled, tags: [backend]}
-- values.yaml --
replicaCount: 1
image: {repository: r, tag: t}
resources: {limits: {cpu: 1}}
nodeSelector: {}
config: null
# podLabels:
#   team: a
## @param ingress.hosts[0].name Host
server: {port: 80, probe: {path: /}}
looped: {a: {x: 1}}
merged: {a: 1}
text: '{{ .Values.fromText.inside }}'
-- values.schema.json --
{"type": "object", "properties": {
  "schemaOnly": {"type": "object", "properties": {"known": {"type": "string"}, "ref": {"$ref": "#/$defs/r"}}},
  "free": {"type": "object", "additionalProperties": true},
  "named": {"type": "object", "patternProperties": {"^x-": {}}}},
  "$defs": {"r": {"type": "object", "properties": {"inRef": {"type": "string"}}}}}
-- templates/_helpers.tpl --
{{- define "keys.image" }}{{ .image.repository }}:{{ .image.digest | default .image.tag }}{{ end }}
{{- define "keys.name" }}{{ .Values.nameOverride | default .Chart.Name }}{{ end }}
-- templates/all.yaml --
kind: ConfigMap
a: {{ include "keys.name" . }}
b: {{ include "keys.image" (dict "image" .Values.image "ctx" $) }}
c: {{ toYaml .Values.resources | nindent 2 }}
{{- with .Values.server }}
d: {{ .port }}{{ .probe.path }}{{ .probe.extra }}
{{- end }}
{{- range $k, $v := .Values.looped }}
e: {{ $v.x }}
{{- end }}
{{- $server := .Values.server }}
f: {{ $server.byVariable }}
g: {{ index .Values "by-index" "deep" }}
h: {{ dig "dug" "deeper" "x" .Values }}
i: {{ if hasKey .Values "flag" }}{{ get .Values.server "got" }}{{ end }}
j: {{ (merge (dict) .Values.merged).viaMerge }}
-- charts/db/Chart.yaml --
apiVersion: v2
name: db
version: 1.0.0
-- charts/db/values.yaml --
storage: {size: 1Gi}
-- charts/db/templates/all.yaml --
a: {{ .Values.global.registry }}{{ .Values.password }}
`

func TestCheckKeys(t *testing.T) {
	c := fromText(t, keysChart)
	tests := map[string]struct {
		values string
		want   []string // "path nearest"
	}{
		"its own defaults": {"replicaCount: 2\nimage: {repository: x, tag: y}\nserver: {port: 1, probe: {path: /x}}", nil},
		"misspelt":         {"replicaCuont: 2", []string{"replicaCuont replicaCount"}},
		"misspelt below":   {"image: {repostory: x}", []string{"image.repostory image.repository"}},
		"misspelt deep":    {"server: {probe: {paht: x}}", []string{"server.probe.paht server.probe.path"}},
		"wrong place":      {"repository: x", []string{"repository image.repository"}},
		"nothing like it":  {"zzzzzz: 1", []string{"zzzzzz "}},
		"several, sorted":  {"zzzzzz: 1\nimage: {tga: 1}", []string{"image.tga image.tag", "zzzzzz "}},
		"empty default":    {"nodeSelector: {any.thing/at-all: x}", nil},
		"null default":     {"config: {any: {thing: x}}", nil},
		"toYaml":           {"resources: {requests: {memory: 1}}", nil},
		"range":            {"looped: {b: {y: 1}}", nil},
		"with":             {"server: {prot: 80}", []string{"server.prot server.port"}},
		"only in templates": {"nameOverride: x\nimage: {digest: x}\nserver: {probe: {extra: 1}, byVariable: 1, got: 1}\n" +
			"by-index: {deep: 1}\ndug: {deeper: 1}\nflag: true\nmerged: {viaMerge: 1}\nfromText: {inside: 1}", nil},
		"in comments":                 {"podLabels: {team: b}\ningress: {hosts: []}", nil},
		"in the schema":               {"schemaOnly: {known: x, ref: {inRef: x}}\nfree: {x: 1}\nnamed: {x-y: 1}", nil},
		"against the schema":          {"schemaOnly: {knwon: x, ref: {inReff: x}}", []string{"schemaOnly.knwon schemaOnly.known", "schemaOnly.ref.inReff schemaOnly.ref.inRef"}},
		"the subchart's, under alias": {"store: {enabled: true, storage: {size: 1}, password: x}\ntags: {backend: true}", nil},
		"misspelt in the subchart":    {"store: {storgae: {size: 1}}\ntags: {backand: true}", []string{"store.storgae store.storage", "tags.backand tags.backend"}},
		"the subchart's own name":     {"db: {storage: {size: 1}}", []string{"db "}},
		"globals":                     {"global: {registry: x}", nil},
		"misspelt global":             {"global: {registyr: x}", []string{"global.registyr global.registry"}},
		"null":                        {"imgae: null", []string{"imgae image"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			unknown, err := c.CheckKeys(Layer{Name: "site", YAML: []byte(test.values)})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, u := range unknown {
				got = append(got, fmt.Sprintf("%s %s", u.Path, u.Nearest))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheckKeysNamesTheLayer(t *testing.T) {
	c := fromText(t, shop)
	unknown, err := c.CheckKeys(
		Layer{Name: "release values", YAML: []byte("replicas: 1")},
		Layer{Name: "--set", Set: "image.tga=2"},
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []UnknownKey{{Layer: "--set", Path: "image.tga", Nearest: "image.tag"}}
	if diff := cmp.Diff(want, unknown); diff != "" {
		t.Error(diff)
	}
	if got := unknown[0].String(); got != `--set: unknown key "image.tga", did you mean "image.tag"?` {
		t.Errorf("said %s", got)
	}
}
