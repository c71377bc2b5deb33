package rollout

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/opencontainers/go-digest"
)

// The form of a record.
const (
	recordAPIVersion = "waybill/v1"
	recordKind       = "Record"
	recordType       = "waybill/record.v1" // type of the Secret
	recordTypePrefix = "waybill/record."
	recordKey        = "record"
	recordLimit      = 1 << 20  // bytes of a Secret's data, k8s.io/api/core/v1 MaxSecretSize
	recordPlainLimit = 32 << 20 // bytes of a record after decompression
)

// The states of an attempt.
const (
	StatusRunning     = "running"
	StatusDone        = "done"
	StatusFailed      = "failed"
	StatusInterrupted = "interrupted" // by the caller, or its program died
)

// What became of a component in an attempt. An empty outcome is one that was
// not reached.
const (
	OutcomeWaiting     = "waiting" // not begun yet
	OutcomeRunning     = "running"
	OutcomeDone        = "done"
	OutcomeUnchanged   = "unchanged"
	OutcomeFailed      = "failed"
	OutcomeTakenBack   = "taken back" // went well, and was undone since another failed
	OutcomeInterrupted = "interrupted"
	OutcomeSkipped     = "skipped"
	OutcomeUninstalled = "uninstalled"
	OutcomeKept        = "kept" // not part of the attempt
)

// Record is one attempt and the whole picture of the instance after it.
type Record struct {
	APIVersion     string            `json:"apiVersion"`
	Kind           string            `json:"kind"`
	Instance       string            `json:"instance"`
	Revision       int               `json:"revision"`
	Action         string            `json:"action"` // install or uninstall
	Status         string            `json:"status"`
	Reason         string            `json:"reason,omitempty"` // why it is not done
	Release        string            `json:"release"`
	Version        string            `json:"version"`
	Bundle         digest.Digest     `json:"bundle,omitempty"`
	ReleaseFile    digest.Digest     `json:"releaseFile,omitempty"`
	Lock           digest.Digest     `json:"lock,omitempty"`
	Location       string            `json:"location,omitempty"`
	Signer         string            `json:"signer,omitempty"`
	Verification   string            `json:"verification,omitempty"`
	Site           string            `json:"site,omitempty"`     // name
	SiteFile       string            `json:"siteFile,omitempty"` // text
	Selected       []string          `json:"selected,omitempty"` // when only some components were named
	Holder         string            `json:"holder"`
	Started        time.Time         `json:"started"`
	Ended          *time.Time        `json:"ended,omitempty"`
	ClusterVersion string            `json:"clusterVersion,omitempty"` // at the end of the attempt
	ClusterDigest  digest.Digest     `json:"clusterDigest,omitempty"`
	Namespaces     []string          `json:"namespaces,omitempty"` // created for this instance, by any attempt
	Components     []ComponentRecord `json:"components"`           // in the order of installing
	// PullSecrets are the places where attempts may have brought a pull secret.
	PullSecrets []PullSecretPlace `json:"pullSecrets,omitempty"`
	Replaced    []Replacement     `json:"replaced,omitempty"`
	// Images are those of the bundles that components stand from, AllowedImages
	// the patterns of others that the site accepts.
	Images        []RecordedImage `json:"images,omitempty"`
	ImagesLeftOut bool            `json:"imagesLeftOut,omitempty"` // they are too many for a Secret
	AllowedImages []string        `json:"allowedImages,omitempty"`
}

// ComponentRecord is what is known of one component. Chart, Values, Images,
// Version and Bundle tell what stands in the cluster; for a component that
// Ready is false for, what was tried last.
type ComponentRecord struct {
	Name         string        `json:"name"`
	Stage        string        `json:"stage,omitempty"`
	Needs        []string      `json:"needs,omitempty"`
	HelmRelease  string        `json:"helmRelease"`
	Namespace    string        `json:"namespace"`
	Version      string        `json:"version,omitempty"` // of the release it stands from; empty: nothing stands
	Bundle       digest.Digest `json:"bundle,omitempty"`
	Chart        string        `json:"chart,omitempty"`
	ChartVersion string        `json:"chartVersion,omitempty"`
	ChartDigest  digest.Digest `json:"chartDigest,omitempty"`
	Values       digest.Digest `json:"values,omitempty"`
	Images       digest.Digest `json:"images,omitempty"`
	// PullSecret is attached to its pods; PodNamespaces are those beside
	// Namespace in which it has pods.
	PullSecret    string   `json:"pullSecret,omitempty"`
	PodNamespaces []string `json:"podNamespaces,omitempty"`
	// Cluster is the digest of the cluster's version and kinds that the
	// component was last found to be right for.
	Cluster digest.Digest `json:"cluster,omitempty"`
	// HelmBefore is the newest Helm revision when the attempt reached the
	// component, HelmPending the newest one it may have begun, HelmAfter the
	// one it ended with.
	HelmBefore  int `json:"helmBefore,omitempty"`
	HelmPending int `json:"helmPending,omitempty"`
	HelmAfter   int `json:"helmAfter,omitempty"`
	// Ready says that HelmAfter is deployed from Chart with Values.
	Ready   bool   `json:"ready"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// Mark is on the objects that attempts created since the component was
	// last absent or ready.
	Mark    string     `json:"mark,omitempty"`
	Started *time.Time `json:"started,omitempty"`
	Ended   *time.Time `json:"ended,omitempty"`
}

// component returns the entry of that name, nil for none.
func (r *Record) component(name string) *ComponentRecord {
	if r == nil {
		return nil
	}
	for i := range r.Components {
		if r.Components[i].Name == name {
			return &r.Components[i]
		}
	}
	return nil
}

// touched says whether there may be something of the component in the cluster.
func (c *ComponentRecord) touched() bool {
	return c != nil && c.Outcome != OutcomeUninstalled && (c.Version != "" || c.HelmAfter > 0 || c.HelmPending > 0)
}

// names says whether a pending Helm revision is one this entry began.
func (c *ComponentRecord) names(revision int) bool {
	return c != nil && c.HelmBefore < revision && revision <= c.HelmPending
}

// encode returns the record as the data of its Secret.
func (r *Record) encode() ([]byte, error) {
	plain, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encoding record %d: %w", r.Revision, err)
	}
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(plain); err != nil {
		return nil, fmt.Errorf("compressing record %d: %w", r.Revision, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing record %d: %w", r.Revision, err)
	}
	return buf.Bytes(), nil
}

// decodeRecord reads what encode wrote. Errors are [*RecordError] and
// [*NewerRecordError].
func decodeRecord(name string, data []byte) (*Record, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, &RecordError{Name: name, Err: err}
	}
	plain, err := io.ReadAll(io.LimitReader(unzip, recordPlainLimit+1))
	if err != nil {
		return nil, &RecordError{Name: name, Err: err}
	}
	if len(plain) > recordPlainLimit {
		return nil, &RecordError{Name: name, Err: fmt.Errorf("larger than %d bytes", recordPlainLimit)}
	}
	var r Record
	if err := json.Unmarshal(plain, &r); err != nil {
		return nil, &RecordError{Name: name, Err: err}
	}
	if r.APIVersion != recordAPIVersion || r.Kind != recordKind {
		return nil, &NewerRecordError{Name: name, Version: r.APIVersion + " " + r.Kind}
	}
	return &r, nil
}
