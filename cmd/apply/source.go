package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/door"
	"waybill/internal/files"
	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/registry"
	"waybill/rollout"
)

// A source is what the operator says of a bundle or a release file, this site and
// the values, and, once it is open, the bundle that was let in.
type source struct {
	word    string            // the first argument
	file    *releasefile.File // nil for a location, and for a release file that is still to be fetched
	site    siteFile
	request rollout.Request
	opened  *door.Opened // nil for a release file without a bundle
}

// Close closes the bundle, when it is open.
func (s *source) Close() error {
	if s.opened == nil {
		return nil
	}
	return s.opened.Close()
}

// sourceFlags are those of every verb that takes a bundle and a site file.
func sourceFlags() []cli.Flag {
	return flags.Join([]cli.Flag{
		&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "site `FILE`"},
		&cli.StringSliceFlag{Name: "values", Usage: "`COMPONENT=FILE` of further values, - for standard input (repeatable)"},
		&cli.StringSliceFlag{Name: "set", Usage: "`COMPONENT.KEY=VALUE` as helm's --set has it (repeatable)"},
	}, flags.Policy(), flags.Registry())
}

// readSource reads what the command line and the files on it say, so that
// what is wrong there is found before anything is opened. The first argument
// is the bundle or a release file, further ones are components.
func readSource(c *cli.Context) (*source, error) {
	src := &source{word: c.Args().First()}
	if src.word == "" {
		return nil, &flags.UsageError{
			Message: fmt.Sprintf("`%s %s` needs the location of a bundle, or a release file", c.App.Name, c.Command.Name),
			Hint:    fmt.Sprintf("%s %s oci://HOST/PATH:TAG, FILE.tar, ./FOLDER or release.yaml", c.App.Name, c.Command.Name),
		}
	}
	var err error
	if src.site, err = readSite(c.String("file")); err != nil {
		return nil, err
	}
	if isReleaseFile(src.word) {
		err = src.readReleaseFile(c)
	} else {
		_, err = registry.ParseLocation(src.word)
	}
	if err != nil {
		return nil, err
	}
	overlays, err := valueOverlays(c)
	if err != nil {
		return nil, err
	}
	src.request = rollout.Request{
		Site: src.site.site, SiteText: src.site.text, SiteFiles: src.site.values, Components: c.Args().Tail(), Values: overlays,
	}
	return src, nil
}

// open lets the bundle in, or makes ready what the release file names. Close the
// source afterwards.
func (s *source) open(c *cli.Context, needPolicy bool) error {
	if isReleaseFile(s.word) {
		return s.openReleaseFile(c, needPolicy)
	}
	return s.openBundle(c, s.word, needPolicy)
}

// readUpTo is the size of blobs up to which a registry's are read and hashed
// before an install: documents, charts and what else is small. Of the layers of
// images it is asked whether they are there; nodes hash what they pull.
const readUpTo = 1 << 20

func (s *source) openBundle(c *cli.Context, location string, needPolicy bool) error {
	options := door.Options{NeedPolicy: needPolicy}
	if needPolicy {
		options.ReadUpTo = readUpTo
	}
	opened, err := flags.OpenAndSay(c, location, options, s.site.settings()...)
	if err != nil {
		return err
	}
	s.opened, s.request.Source = opened, sourceOf(opened)
	return opened.Bundle.Installable()
}

func sourceOf(o *door.Opened) rollout.Source {
	src := rollout.FromBundle(o.Bundle)
	src.Location = o.Location.String()
	src.Signer = strings.Join(o.Verification.Signers, ", ")
	src.Verification = o.Verification.State
	return src
}

// A siteFile is a site file on disk with the values files it names. The zero
// value is none.
type siteFile struct {
	path   string
	text   []byte
	site   *bundle.Site
	values map[string][]byte
}

func readSite(path string) (siteFile, error) {
	if path == "" {
		return siteFile{}, nil
	}
	text, err := files.Read(path)
	if err != nil {
		return siteFile{}, err
	}
	site, err := bundle.ParseSite(path, text)
	if err != nil {
		return siteFile{}, err
	}
	if err := checkSite(path, site); err != nil {
		return siteFile{}, err
	}
	f := siteFile{path: path, text: text, site: site, values: map[string][]byte{}}
	for name, component := range site.Components {
		for _, file := range component.ValuesFiles {
			data, err := files.Read(filepath.Join(filepath.Dir(path), filepath.FromSlash(file)))
			if err != nil {
				return siteFile{}, fmt.Errorf("values file %q of component %s: %w", file, name, err)
			}
			f.values[file] = data
		}
	}
	return f, nil
}

// checkSite refuses words of a site file that fit its schema and name nothing.
func checkSite(path string, site *bundle.Site) error {
	if site.Images == nil {
		return nil
	}
	if err := checkImageMode("site file "+path+": images.mode", site.Images.Mode); err != nil {
		return err
	}
	return checkRepository("site file "+path+": images.registry", site.Images.Registry)
}

// settings is what the site file says of opening bundles.
func (f siteFile) settings() []flags.SiteSettings {
	if f.site == nil {
		return nil
	}
	return []flags.SiteSettings{{File: f.path, Verify: f.site.Verify, Registry: f.site.Registry}}
}

// valueOverlays reads --values and --set, the last layers of values.
func valueOverlays(c *cli.Context) (map[string][]rollout.Layer, error) {
	overlays := map[string][]rollout.Layer{}
	stdin := false
	for _, word := range c.StringSlice("values") {
		component, path, ok := strings.Cut(word, "=")
		if !ok || component == "" || path == "" {
			return nil, &flags.UsageError{Message: fmt.Sprintf("--values %q is not COMPONENT=FILE", word)}
		}
		if path == "-" && stdin {
			return nil, flags.Usagef("--values: standard input can be read once")
		}
		stdin = stdin || path == "-"
		data, err := readValues(c.App.Reader, path)
		if err != nil {
			return nil, err
		}
		overlays[component] = append(overlays[component], rollout.Layer{Name: "--values " + word, YAML: data})
	}
	for _, word := range c.StringSlice("set") {
		component, rest, ok := strings.Cut(word, ".")
		if !ok || component == "" || !strings.Contains(rest, "=") {
			return nil, &flags.UsageError{Message: fmt.Sprintf("--set %q is not COMPONENT.KEY=VALUE", word)}
		}
		key, _, _ := strings.Cut(rest, "=")
		overlays[component] = append(overlays[component], rollout.Layer{Name: "--set " + component + "." + key, Set: rest})
	}
	return overlays, nil
}

func readValues(in io.Reader, path string) ([]byte, error) {
	if path != "-" {
		return files.Read(path)
	}
	return files.ReadFrom("standard input", in)
}
