package charts

import (
	"fmt"
	"maps"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// heldRecords is Helm's storage for one action. Helm says deployed as soon as
// everything is sent, and takes the word from the revision before. Both are
// held back until the objects are ready: until then the revision stays
// pending, so that whoever finds it after a crash knows that it was not
// finished, and the revision before stays what it was.
type heldRecords struct {
	driver.Driver
	labels map[string]string // put on the revision that is made

	// Of image references. Hooks are rewritten before the record that holds
	// them is written, and Helm runs them from that record.
	rewriting *rewriting

	key  string           // of the revision this action makes, empty before
	made *release.Release // its last form, as Helm meant it
	was  release.Status   // its pending status
}

func (h *heldRecords) Create(key string, rel *release.Release) error {
	if rel.Labels == nil {
		rel.Labels = map[string]string{}
	}
	maps.Copy(rel.Labels, h.labels)
	if err := h.rewriting.hooks(rel); err != nil {
		return err
	}
	if err := h.Driver.Create(key, rel); err != nil {
		return err
	}
	h.key, h.made, h.was = key, copyRelease(rel), rel.Info.Status
	return nil
}

func (h *heldRecords) Update(key string, rel *release.Release) error {
	if key != h.key {
		return nil // other revisions change when this one is ready, in finish
	}
	h.made = copyRelease(rel)
	if rel.Info.Status != release.StatusDeployed {
		return h.Driver.Update(key, rel)
	}
	pending := copyRelease(rel)
	pending.SetStatus(h.was, "Waiting until it is ready")
	return h.Driver.Update(key, pending)
}

// sent is the revision that was made; an empty one when there is none.
func (h *heldRecords) sent() *release.Release {
	if h.made == nil {
		return &release.Release{}
	}
	return h.made
}

// copyRelease copies as deep as statuses are changed.
func copyRelease(rel *release.Release) *release.Release {
	twin, info := *rel, *rel.Info
	twin.Info = &info
	return &twin
}

// finish records how the action ended and returns the revision it made, nil
// when it came to none. It does not end with the action's context: a revision
// must not stay pending.
func (s *session) finish(cause error) (*release.Release, error) {
	records := s.records
	if records.key == "" {
		return nil, nil
	}
	made := copyRelease(records.made)
	if cause != nil {
		made.SetStatus(release.StatusFailed, fmt.Sprintf("Release %q failed: %s", made.Name, shortened(cause.Error())))
		return made, persist(func() error { return records.Driver.Update(records.key, made) })
	}
	made.Info.Status = release.StatusDeployed
	if err := persist(func() error { return records.Driver.Update(records.key, made) }); err != nil {
		return made, err
	}
	return made, persist(func() error { return s.supersede(made.Version) })
}

// supersede takes the word deployed from all revisions but the newest, and the
// word uninstalled, as Helm does.
func (s *session) supersede(newest int) error {
	releases, err := s.records.Query(map[string]string{"name": s.comp.HelmRelease, "owner": "helm"})
	if err != nil {
		return fmt.Errorf("reading the history of Helm release %s: %w", s.comp.title(), err)
	}
	for _, rel := range releases {
		if rel.Version >= newest || rel.Info.Status != release.StatusDeployed && rel.Info.Status != release.StatusUninstalled {
			continue
		}
		rel.Info.Status = release.StatusSuperseded
		if err := s.records.Driver.Update(recordKey(rel), rel); err != nil {
			return fmt.Errorf("superseding revision %d of Helm release %s: %w", rel.Version, s.comp.title(), err)
		}
	}
	return nil
}

// recordKey is the name of the Secret of a revision
// (helm.sh/helm/v3/pkg/storage, makeKey).
func recordKey(rel *release.Release) string {
	return fmt.Sprintf("sh.helm.release.v1.%s.v%d", rel.Name, rel.Version)
}

// persist tries a write again when it fails, since a record that says pending
// blocks plain Helm, but keeps nobody waiting for long who wants to stop.
func persist(write func() error) error {
	begun := time.Now()
	for {
		err := write()
		if err == nil || apierrors.IsNotFound(err) || time.Since(begun) > recordTimeout/3 {
			return err
		}
		time.Sleep(time.Second)
	}
}

// shortened keeps a description readable in `helm history`.
func shortened(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
