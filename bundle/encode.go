package bundle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Encode writes the lock in its one encoding: the same lock gives the same
// bytes, on disk and in the bundle, and [ParseLock] reads them back. Keys stand
// in the order of the types, lists sorted, absent things left out, every text
// that is not plainly text quoted as in JSON. No library writes it, so none can
// change it.
//
// It returns an error for a lock that does not fit the schema.
func (l *Lock) Encode() ([]byte, error) {
	var w lockWriter
	w.field("", "apiVersion", l.APIVersion)
	w.field("", "kind", l.Kind)
	w.field("", "packed", l.Packed)
	w.line("release:")
	w.field("  ", "name", l.Release.Name)
	w.field("  ", "version", l.Release.Version)
	w.charts(l.Charts)
	w.images(l.Images)
	if w.err != nil {
		return nil, fmt.Errorf("encoding the lock: %w", w.err)
	}
	if _, err := ParseLock("lock", w.Bytes()); err != nil {
		return nil, fmt.Errorf("encoding the lock: %w", err)
	}
	return w.Bytes(), nil
}

type lockWriter struct {
	bytes.Buffer
	err error
}

func (w *lockWriter) line(text string) { w.WriteString(text + "\n") }

func (w *lockWriter) field(indent, key, value string) {
	if value != "" {
		w.line(indent + key + ": " + w.scalar(value))
	}
}

func (w *lockWriter) list(key string, values []string) {
	const indent = "  "
	if len(values) == 0 {
		return
	}
	w.line(indent + key + ":")
	for _, v := range slices.Sorted(slices.Values(values)) {
		w.line(indent + "- " + w.scalar(v))
	}
}

func (w *lockWriter) charts(charts []LockedChart) {
	if len(charts) == 0 {
		w.line("charts: []")
		return
	}
	w.line("charts:")
	sorted := slices.SortedFunc(slices.Values(charts), func(a, b LockedChart) int { return strings.Compare(a.Component, b.Component) })
	for _, c := range sorted {
		w.field("- ", "component", c.Component)
		w.field("  ", "name", c.Name)
		w.field("  ", "version", c.Version)
		w.field("  ", "source", c.Source)
		w.field("  ", "inputs", c.Inputs.String())
		w.field("  ", "content", c.Content.String())
		w.field("  ", "manifest", c.Manifest.String())
		w.field("  ", "files", c.Files.String())
		w.dependencies(c.Dependencies)
	}
}

func (w *lockWriter) dependencies(dependencies []LockedDependency) {
	if len(dependencies) == 0 {
		return
	}
	w.line("  dependencies:")
	for _, d := range slices.SortedFunc(slices.Values(dependencies), compareDependencies) {
		w.field("  - ", "name", d.Name)
		w.field("    ", "version", d.Version)
		w.field("    ", "repository", d.Repository)
		w.field("    ", "content", d.Content.String())
	}
}

func compareDependencies(a, b LockedDependency) int {
	return cmp.Or(
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Content, b.Content),
	)
}

func (w *lockWriter) images(images []LockedImage) {
	if len(images) == 0 {
		return
	}
	w.line("images:")
	for _, i := range slices.SortedFunc(slices.Values(images), CompareLockedImages) {
		w.field("- ", "digest", i.Digest.String())
		w.field("  ", "mediaType", i.MediaType)
		w.line("  size: " + strconv.FormatInt(i.Size, 10))
		w.list("platforms", i.Platforms)
		w.list("references", i.References)
		w.list("spellings", i.Spellings)
		w.list("components", i.Components)
		w.field("  ", "upstream", i.Upstream.String())
		w.manifests(i.Manifests)
	}
}

// CompareLockedImages orders images as a lock has them: by digest, and then by
// upstream.
func CompareLockedImages(a, b LockedImage) int {
	return cmp.Or(cmp.Compare(a.Digest, b.Digest), cmp.Compare(a.Upstream, b.Upstream))
}

func (w *lockWriter) manifests(manifests []LockedManifest) {
	if len(manifests) == 0 {
		return
	}
	w.line("  manifests:")
	for _, m := range sortedManifests(manifests) {
		w.field("  - ", "platform", m.Platform)
		w.field("    ", "digest", m.Digest.String())
	}
}

func sortedManifests(manifests []LockedManifest) []LockedManifest {
	return slices.SortedFunc(slices.Values(manifests), func(a, b LockedManifest) int {
		return cmp.Or(cmp.Compare(a.Platform, b.Platform), cmp.Compare(a.Digest, b.Digest))
	})
}

var plainScalar = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/:@+-]*[A-Za-z0-9]$`)

// scalar writes text plain when nothing could read it as anything else, and
// quoted as JSON otherwise, which is YAML too.
func (w *lockWriter) scalar(text string) string {
	if plainText(text) && plainScalar.MatchString(text) {
		return text
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil && w.err == nil {
		w.err = err
	}
	return strings.TrimSuffix(out.String(), "\n")
}
