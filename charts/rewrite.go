package charts

import (
	"bytes"
	"fmt"

	"helm.sh/helm/v3/pkg/release"

	"waybill/charts/images"
)

// Rewritten is what became of the image references of one component.
type Rewritten struct {
	Changes []images.Change
	Unknown []images.Use // of containers, and not known where to pull from
	Stuck   []images.Use // known, and written in parts with no place for a digest
	Left    []images.Use // known, and inside of longer texts, which stay
	Similar []images.Use // texts that read as references and are not known
	// Namespaces are those of objects with pods, "" for the Helm release's own.
	Namespaces []string
}

// A rewriting puts the references of one component's manifests in their new
// form, in the three places where they leave for the cluster: what Helm has
// rendered (as its post-renderer), hooks and tests (in its record, before it
// runs them), and crds/.
type rewriting struct {
	locate     func(string) (string, bool)
	pullSecret string
	done       Rewritten
}

func (c Component) rewriting() *rewriting {
	return &rewriting{locate: c.Locate, pullSecret: c.PullSecret}
}

// text rewrites one manifest.
func (r *rewriting) text(template, manifest string) (string, error) {
	if r.locate == nil {
		return manifest, nil
	}
	w := images.Rewriter{Locate: r.locate, PullSecret: r.pullSecret}
	out, err := w.Rewrite(template, manifest)
	if err != nil {
		return "", fmt.Errorf("rewriting image references: %w", err)
	}
	r.done.Changes = append(r.done.Changes, w.Changes...)
	r.done.Unknown = append(r.done.Unknown, w.Unknown...)
	r.done.Stuck = append(r.done.Stuck, w.Stuck...)
	r.done.Left = append(r.done.Left, w.Left...)
	r.done.Similar = append(r.done.Similar, w.Similar...)
	r.done.Namespaces = append(r.done.Namespaces, w.Namespaces...)
	return out, nil
}

// Run is Helm's postrender.PostRenderer.
func (r *rewriting) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	out, err := r.text("the chart's templates", rendered.String())
	if err != nil {
		return nil, err
	}
	return bytes.NewBufferString(out), nil
}

// hooks rewrites the hooks of a record that Helm has not begun to run.
func (r *rewriting) hooks(rel *release.Release) error {
	for _, hook := range rel.Hooks {
		manifest, err := r.text(hook.Path, hook.Manifest)
		if err != nil {
			return err
		}
		hook.Manifest = manifest
	}
	return nil
}

// files rewrites the files of crds/.
func (r *rewriting) files(files []File) ([]File, error) {
	out := make([]File, len(files))
	for i, file := range files {
		text, err := r.text(file.Name, string(file.Data))
		if err != nil {
			return nil, err
		}
		out[i] = File{Name: file.Name, Data: []byte(text)}
	}
	return out, nil
}
