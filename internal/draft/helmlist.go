package draft

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// A helmRelease is an entry of what `helm list -o json` prints.
type helmRelease struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Status    string `json:"status"`
	Chart     string `json:"chart"` // name and version with a - between
}

// fromHelmList makes each Helm release a component. The list does not tell where
// charts come from and which values they have.
func fromHelmList(path string, data []byte) (*Draft, error) {
	var list []helmRelease
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, &UnknownError{Path: path, Reason: "is no list of Helm releases: " + err.Error()}
	}
	d := &Draft{Name: "my-release", Version: "0.1.0"}
	names, created := unique{}, map[string]bool{}
	for _, r := range list {
		if r.Name == "" || r.Chart == "" || r.Namespace == "" {
			return nil, &UnknownError{Path: path, Reason: "is no list of Helm releases: an entry lacks name, namespace or chart"}
		}
		chart, version := splitChart(r.Chart)
		c := Component{
			Name: names.name(r.Name, r.Namespace), ReleaseName: r.Name, Namespace: r.Namespace, Create: !created[r.Namespace],
			Chart: []Pair{{"repository", placeholder}, {"name", chart}, {"version", version}},
			Notes: []string{fmt.Sprintf("Its values: helm get values %s -n %s", r.Name, r.Namespace)},
		}
		created[r.Namespace] = true
		if r.Status != "deployed" && r.Status != "" {
			c.Notes = append(c.Notes, "Helm says of it: "+strings.Join(strings.Fields(r.Status), " "))
		}
		d.Components = append(d.Components, c)
	}
	if len(d.Components) == 0 {
		return nil, &UnknownError{Path: path, Reason: "lists no Helm release"}
	}
	d.Notes = []string{
		"the list does not tell the charts' repositories: write each where " + placeholder + " stands",
		"the list does not tell values: `helm get values NAME -n NAMESPACE` does",
		"`apply install` leaves alone what something else installed: this release is for another cluster, or for after `helm uninstall`",
	}
	return d, nil
}

// splitChart takes name and version of a chart apart: the version begins behind
// the first - from which on it is one.
func splitChart(text string) (name, version string) {
	parts := strings.Split(text, "-")
	for i := range parts[1:] {
		rest := strings.Join(parts[i+1:], "-")
		if _, err := semver.StrictNewVersion(strings.TrimPrefix(rest, "v")); err == nil {
			return strings.Join(parts[:i+1], "-"), rest
		}
	}
	return text, "*"
}
