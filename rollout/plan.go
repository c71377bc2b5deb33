package rollout

import (
	"github.com/opencontainers/go-digest"
)

// What happens to a component.
const (
	ActionInstall     = "install"
	ActionUpgrade     = "upgrade"
	ActionReplace     = "replace" // a first install that failed is done again
	ActionUnchanged   = "unchanged"
	ActionUninstall   = "uninstall"
	ActionDisabled    = "disabled"     // the site does without, or provides it
	ActionNotSelected = "not selected" // others were named
	ActionLeft        = "left"         // recorded, and no longer in the release
	ActionRefused     = "refused"      // its Helm release is not ours to go on with
)

// Plan is what an install would do. It is plain data, in the order of the
// release file.
type Plan struct {
	Instance       string              `json:"instance"`
	Release        string              `json:"release"`
	Version        string              `json:"version"`
	Bundle         digest.Digest       `json:"bundle,omitempty"` // empty when it is from a release file
	ReleaseFile    digest.Digest       `json:"releaseFile,omitempty"`
	Lock           digest.Digest       `json:"lock,omitempty"`
	Location       string              `json:"reference,omitempty"`
	Signer         string              `json:"signer,omitempty"`
	Verification   string              `json:"verification,omitempty"`
	Site           string              `json:"site,omitempty"`
	StateNamespace string              `json:"stateNamespace"`
	Cluster        string              `json:"cluster"`             // version of the server
	Installed      string              `json:"installed,omitempty"` // version recorded now
	Revision       int                 `json:"revision"`            // of the record an install would write
	Change         bool                `json:"change"`              // whether an install would write anything
	Reasons        []string            `json:"reasons,omitempty"`   // for the change, beyond the components'
	Namespaces     []PlannedNamespace  `json:"namespaces"`
	Components     []PlannedComponent  `json:"components"`
	PullSecrets    []PlannedPullSecret `json:"pullSecrets,omitempty"`
	Replaced       []Replacement       `json:"replaced,omitempty"`
	Heals          []Heal              `json:"heals,omitempty"`
	Warnings       []string            `json:"warnings,omitempty"`
	Refusals       []Refusal           `json:"refusals,omitempty"`
}

// PlannedNamespace is a namespace that the plan needs.
type PlannedNamespace struct {
	Name   string `json:"name"`
	Create bool   `json:"create"`
}

// PlannedComponent is what would happen to one component.
type PlannedComponent struct {
	Name         string        `json:"name"`
	Stage        string        `json:"stage,omitempty"`
	Needs        []string      `json:"needs,omitempty"`
	After        []string      `json:"after,omitempty"` // further components waited for: they bring kinds this one uses
	Action       string        `json:"action"`
	Reasons      []string      `json:"reasons,omitempty"`
	HelmRelease  string        `json:"helmRelease"`
	Namespace    string        `json:"namespace"`
	Profile      string        `json:"profile,omitempty"`
	Chart        string        `json:"chart,omitempty"`
	ChartVersion string        `json:"chartVersion,omitempty"`
	ChartDigest  digest.Digest `json:"chartDigest,omitempty"`
	Values       digest.Digest `json:"values,omitempty"` // digest of the merged values
	HelmRevision int           `json:"helmRevision"`     // newest one there is, 0 for none
	Images       []ImageChange `json:"images,omitempty"` // references that are rewritten
	Coming       []Coming      `json:"-"`                // kinds it was rendered with that others bring first
}

// Heal is a Helm revision that a dead attempt left pending.
type Heal struct {
	Component    string `json:"component"`
	HelmRelease  string `json:"helmRelease"`
	Namespace    string `json:"namespace"`
	HelmRevision int    `json:"helmRevision"`
	Status       string `json:"status"`
}

// changes says whether the action touches the cluster.
func changes(action string) bool {
	switch action {
	case ActionInstall, ActionUpgrade, ActionReplace, ActionUninstall:
		return true
	}
	return false
}

// Outcome is what an attempt did.
type Outcome struct {
	Instance       string             `json:"instance"`
	Release        string             `json:"release"`
	Version        string             `json:"version"`
	Bundle         digest.Digest      `json:"bundle,omitempty"`
	Signer         string             `json:"signer,omitempty"`
	Revision       int                `json:"revision"` // of the record; when unchanged, of the last one
	Status         string             `json:"status"`   // unchanged, done, failed, interrupted, planned
	Healed         []Heal             `json:"healed,omitempty"`
	Namespaces     []string           `json:"namespaces,omitempty"`     // created
	NamespacesLeft []string           `json:"namespacesLeft,omitempty"` // created once, and not removed by an uninstall
	Components     []ComponentOutcome `json:"components"`
	Warnings       []string           `json:"warnings,omitempty"`
}

// ComponentOutcome is what became of one component.
type ComponentOutcome struct {
	Name       string   `json:"name"`
	Action     string   `json:"action"`
	Outcome    string   `json:"outcome"`
	Reason     string   `json:"reason,omitempty"`   // why it failed or was skipped
	WaitedOn   []string `json:"waitedOn,omitempty"` // what kept it from beginning
	HelmBefore int      `json:"helmBefore"`
	HelmAfter  int      `json:"helmAfter"`
	Seconds    float64  `json:"seconds"`
}

// StatusUnchanged is the status of an [Outcome] that wrote nothing.
const StatusUnchanged = "unchanged"

// StatusPlanned is the status of an [Outcome] of a dry run.
const StatusPlanned = "planned"
