package registrytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"cuelabs.dev/go/oci/ociregistry"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Tagged is the digest that a tag of the registry in memory names; empty for none.
// It is no request.
func (s *Server) Tagged(repository, tag string) digest.Digest {
	desc, err := s.backend.ResolveTag(context.Background(), repository, tag)
	if err != nil {
		return ""
	}
	return desc.Digest
}

// Contents lists all that a tag of the registry in memory leads to: every digest
// below it and what hangs on each, in whatever form; what belongs to that only is
// marked as attached. Something that should be there and is not is an error. It makes
// no request.
func (s *Server) Contents(repository, tag string) ([]string, error) {
	w := &contents{server: s, repository: repository, kinds: map[digest.Digest]string{}, seen: map[string]bool{}}
	desc, err := s.backend.ResolveTag(context.Background(), repository, tag)
	if err != nil {
		return nil, err
	}
	for w.round = []digest.Digest{desc.Digest}; len(w.round) > 0 && err == nil; w.prefix = "attached " {
		subjects := w.round
		w.round, w.below = nil, nil
		for _, d := range subjects {
			err = errors.Join(err, w.manifest(d))
		}
		for _, d := range w.below {
			err = errors.Join(err, w.attachments(d))
		}
	}
	return w.lines(), err
}

// contents is a walk through a repository.
type contents struct {
	server     *Server
	repository string
	prefix     string
	kinds      map[digest.Digest]string // of what was met
	seen       map[string]bool          // other lines
	below      []digest.Digest          // manifests met in this round
	round      []digest.Digest          // manifests that hang on those
}

// met notes content, as what it was met first.
func (w *contents) met(kind string, d digest.Digest) bool {
	if w.kinds[d] != "" {
		return false
	}
	w.kinds[d] = w.prefix + kind
	return true
}

func (w *contents) lines() []string {
	var out []string
	for line := range w.seen {
		out = append(out, line)
	}
	for d, kind := range w.kinds {
		out = append(out, kind+" "+d.String())
	}
	slices.Sort(out)
	return out
}

// manifest walks through one manifest, unless it was seen.
func (w *contents) manifest(d digest.Digest) error {
	if !w.met("manifest", d) {
		return nil
	}
	w.below = append(w.below, d)
	data, err := w.read(w.server.backend.GetManifest(context.Background(), w.repository, d))
	if err != nil {
		return fmt.Errorf("manifest %s: %w", d, err)
	}
	if digest.FromBytes(data) != d {
		return fmt.Errorf("manifest %s is another", d)
	}
	return w.parts(data)
}

func (w *contents) read(r ociregistry.BlobReader, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer r.Close() // only read from
	return io.ReadAll(r)
}

func (w *contents) parts(data []byte) error {
	var m struct {
		Config    *ocispec.Descriptor  `json:"config"`
		Layers    []ocispec.Descriptor `json:"layers"`
		Manifests []ocispec.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	if m.Config != nil {
		m.Layers = append(m.Layers, *m.Config)
	}
	for _, blob := range m.Layers {
		got, err := w.read(w.server.backend.GetBlob(context.Background(), w.repository, blob.Digest))
		if err != nil || digest.FromBytes(got) != blob.Digest {
			return fmt.Errorf("blob %s is missing or another: %w", blob.Digest, err)
		}
		w.met("blob", blob.Digest)
	}
	for _, child := range m.Manifests {
		if err := w.manifest(child.Digest); err != nil {
			return err
		}
	}
	return nil
}

// attachments walks through what hangs on a manifest, as a client finds it. Of a
// list of referrers the entries count, not their order.
func (w *contents) attachments(d digest.Digest) error {
	name := strings.Replace(d.String(), ":", "-", 1)
	for _, suffix := range []string{".sig", ".att", ".sbom"} {
		if at := w.server.Tagged(w.repository, name+suffix); at != "" {
			w.seen["tag "+name+suffix+" "+at.String()] = true
			w.round = append(w.round, at)
		}
	}
	referrers, err := w.referrers(d, name)
	if err != nil {
		return err
	}
	for _, desc := range referrers {
		data, err := w.read(w.server.backend.GetManifest(context.Background(), w.repository, desc.Digest))
		if err != nil {
			return fmt.Errorf("referrer %s: %w", desc.Digest, err)
		}
		var manifest ocispec.Manifest
		if err := json.Unmarshal(data, &manifest); err != nil {
			return err
		}
		w.seen[fmt.Sprintf("referrer of %s %s %s", d, manifest.ArtifactType, desc.Digest)] = true
		w.round = append(w.round, desc.Digest)
	}
	return nil
}

func (w *contents) referrers(d digest.Digest, tag string) ([]ociregistry.Descriptor, error) {
	var all []ociregistry.Descriptor
	if !w.server.opts.NoReferrers {
		for desc, err := range w.server.backend.Referrers(context.Background(), w.repository, d, "") {
			if err != nil {
				return nil, err
			}
			all = append(all, desc)
		}
		return all, nil
	}
	at := w.server.Tagged(w.repository, tag)
	if at == "" {
		return nil, nil
	}
	data, err := w.read(w.server.backend.GetManifest(context.Background(), w.repository, at))
	if err != nil {
		return nil, err
	}
	var index ocispec.Index
	err = json.Unmarshal(data, &index)
	return index.Manifests, err
}
