package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
	"waybill/internal/disk"
	"waybill/internal/door"
	"waybill/internal/files"
	"waybill/internal/ui"
	"waybill/registry"
)

// The ends of the names of a packing list, behind the archive's.
const (
	packingText = ".waybill.txt"
	packingJSON = ".waybill.json"
)

const packingFormat = "application/vnd.waybill.packing-list.v1+json"

// A packingList lies beside an archive and says what is in it, who signed it, and
// how it is loaded: for who gets the medium, and not for programs to rely on.
type packingList struct {
	Format  string        `json:"format"`
	Name    string        `json:"name,omitempty"`
	Version string        `json:"version,omitempty"`
	Root    digest.Digest `json:"root"`
	Source  string        `json:"source"` // where it was saved from
	door.Verification
	Components []packedChart `json:"components,omitempty"`
	Images     []packedImage `json:"images,omitempty"`
	Base       *deltaResult  `json:"base,omitempty"`
	LeftOut    []packedLayer `json:"leftOut,omitempty"` // layers that may not be given on
	Split      int64         `json:"split,omitempty"`   // of volumes
	Volumes    []packedFile  `json:"volumes"`           // a whole archive is the only one
	Load       []string      `json:"load"`              // what to type
}

type packedChart struct {
	Component string        `json:"component"`
	Chart     string        `json:"chart"`
	Version   string        `json:"version"`
	Manifest  digest.Digest `json:"manifest"`
}

type packedImage struct {
	Digest     digest.Digest `json:"digest"`
	References []string      `json:"references"`
	Platforms  []string      `json:"platforms,omitempty"`
}

type packedLayer struct {
	Digest    digest.Digest `json:"digest"`
	Size      int64         `json:"size"`
	MediaType string        `json:"mediaType"`
}

// packedFile is a file of the medium. One that was not written with the others
// has no checksum here.
type packedFile struct {
	Number int    `json:"number"`
	File   string `json:"file"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"`
}

// writePackingList writes the list of what was saved to d, last of all.
func (c copier) writePackingList(ctx context.Context, d destination, dst *registry.Destination, at *copiedTo) error {
	list := c.packingList(dst.Delta())
	for _, desc := range at.LeftOut {
		list.LeftOut = append(list.LeftOut, packedLayer{Digest: desc.Digest, Size: desc.Size, MediaType: desc.MediaType})
	}
	if volumes := dst.Volumes(); volumes != nil {
		list.Split = volumes.Split
		for _, f := range append(slices.Clone(volumes.Files), volumes.Others...) {
			list.Volumes = append(list.Volumes, packedFile{Number: f.Number, File: filepath.Base(f.Path), Size: f.Size, SHA256: f.SHA256})
		}
		slices.SortFunc(list.Volumes, func(a, b packedFile) int { return a.Number - b.Number })
		list.takeOver(d.loc.Path + packingJSON)
	} else {
		size, sum, err := dst.FileSum(ctx)
		if err != nil {
			return err
		}
		list.Volumes = []packedFile{{Number: 1, File: filepath.Base(d.loc.Path), Size: size, SHA256: sum}}
	}
	list.Load = list.commands(d)
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	err = files.WriteAll([]files.Content{
		{Path: d.loc.Path + packingJSON, Data: append(data, '\n')},
		{Path: d.loc.Path + packingText, Data: []byte(list.text())},
	}, 0o644)
	if err != nil {
		list.removeOther(d.loc.Path)
		return &packingError{saved: d.loc.Path, err: err}
	}
	c.talk.Sayf("what is in it, and how it is loaded, is in %s and %s", d.loc.Path+packingText, filepath.Base(d.loc.Path)+packingJSON)
	return nil
}

func (c copier) packingList(delta *registry.Delta) packingList {
	list := packingList{Format: packingFormat, Root: c.source.Root.Digest, Source: c.source.Location.String(), Verification: c.source.Verification, Base: deltaResultOf(delta)}
	if c.source.Bundle == nil {
		list.Name = c.source.Source.Name()
		return list
	}
	lock := c.source.Bundle.Lock
	list.Name, list.Version = lock.Release.Name, lock.Release.Version
	for _, chart := range lock.Charts {
		list.Components = append(list.Components, packedChart{Component: chart.Component, Chart: chart.Name, Version: chart.Version, Manifest: chart.Manifest})
	}
	for _, image := range lock.Images {
		list.Images = append(list.Images, packedImageOf(image))
	}
	return list
}

func packedImageOf(image bundle.LockedImage) packedImage {
	return packedImage{Digest: image.Digest, References: image.References, Platforms: image.Platforms}
}

// takeOver keeps the checksums of volumes that an earlier run has written to the
// same place.
func (l *packingList) takeOver(path string) {
	before, ok := readPackingList(path)
	if !ok || !l.isOfSame(before) {
		return
	}
	for i, f := range l.Volumes {
		for _, old := range before.Volumes {
			if f.SHA256 == "" && old.File == f.File && old.Size == f.Size {
				l.Volumes[i].SHA256 = old.SHA256
			}
		}
	}
}

// readPackingList reads a list that lies there already, if that is one.
func readPackingList(path string) (list packingList, ok bool) {
	data, err := files.Read(path)
	ok = err == nil && json.Unmarshal(data, &list) == nil && list.Format == packingFormat
	return list, ok
}

// isOfSame says whether a list is of the same files.
func (l *packingList) isOfSame(other packingList) bool {
	return other.Root == l.Root && other.Split == l.Split
}

// removeOther removes the list of what a file held before, so that none lies beside
// it which is not of it.
func (l *packingList) removeOther(path string) {
	if before, ok := readPackingList(path + packingJSON); ok && !l.isOfSame(before) {
		_ = os.Remove(path + packingJSON)
		_ = os.Remove(path + packingText)
	}
}

// A packingError reports that what was saved is there, and the list of it is not.
type packingError struct {
	saved string
	err   error
}

func (e *packingError) Error() string {
	return fmt.Sprintf("what was saved to %s is there, whole; writing the packing list: %v", e.saved, files.PlainError(e.err))
}

func (e *packingError) Unwrap() error { return e.err }

// Hint says what to type next.
func (e *packingError) Hint() string {
	hint := "run the same command again and it writes the list alone: what is saved is there and stays"
	if disk.IsFull(e.err) {
		return "make room on the disk first\n" + hint
	}
	return hint
}

// commands are what to type to load it.
func (l *packingList) commands(d destination) []string {
	name := filepath.Base(d.loc.Path)
	whole := "bundle load " + name + " oci://HOST/PATH"
	if len(l.Volumes) == 1 && l.Split == 0 {
		return []string{whole}
	}
	lines := []string{whole}
	for _, f := range l.Volumes {
		lines = append(lines, "bundle load --partial "+f.File+" oci://HOST/PATH")
	}
	return lines
}

// text is the list for people.
func (l *packingList) text() string {
	var b strings.Builder
	title := strings.TrimSpace(l.Name + " " + l.Version)
	if title == "" {
		title = l.Root.String()
	}
	ui.Printf(&b, "%s\n\nroot  %s\nfrom  %s\n%s\n", title, l.Root, l.Source, l.Verification)
	if l.Base != nil {
		ui.Printf(&b, "delta, needs %s (%s in %d blobs are left out)\n", l.Base.needs(), ui.Size(l.Base.LeftOut.Bytes), l.Base.LeftOut.Objects)
	}
	b.WriteString("\nFiles\n")
	for _, f := range l.Volumes {
		sum := f.SHA256
		if sum == "" {
			sum = "(written by another run)"
		}
		ui.Printf(&b, "  %s  %d bytes (%s)  sha256 %s\n", f.File, f.Size, ui.Size(f.Size), sum)
	}
	if len(l.Components) > 0 {
		b.WriteString("\nComponents\n")
		for _, chart := range l.Components {
			ui.Printf(&b, "  %s  chart %s %s\n", chart.Component, chart.Chart, chart.Version)
		}
	}
	if len(l.Images) > 0 {
		b.WriteString("\nImages\n")
		for _, image := range l.Images {
			ui.Printf(&b, "  %s  %s  %s\n", strings.Join(image.References, ", "), image.Digest, strings.Join(image.Platforms, ", "))
		}
	}
	if len(l.LeftOut) > 0 {
		b.WriteString("\nLeft out: layers that may not be given on; who runs the image fetches them from their addresses\n")
		for _, layer := range l.LeftOut {
			ui.Printf(&b, "  %s  %d bytes (%s)\n", layer.Digest, layer.Size, ui.Size(layer.Size))
		}
	}
	b.WriteString("\nTo load it, with the name of the registry in place of HOST/PATH\n  " + l.Load[0] + "\n")
	if len(l.Load) > 1 {
		b.WriteString("or, one medium after the other\n  " + strings.Join(l.Load[1:], "\n  ") + "\n")
	}
	return b.String()
}
