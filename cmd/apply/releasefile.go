package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/files"
	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/rollout"
)

// isReleaseFile says whether a word stands for a release file and not for a
// location: a path or an http address that ends in .yaml or .yml.
func isReleaseFile(word string) bool {
	if isURL(word) {
		u, err := url.Parse(word)
		return err == nil && isYAML(u.Path)
	}
	for _, scheme := range []string{"oci://", "oci-layout:", "oci-archive:"} {
		if strings.HasPrefix(word, scheme) {
			return false
		}
	}
	return isYAML(word)
}

func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

func isURL(word string) bool {
	return strings.HasPrefix(word, "http://") || strings.HasPrefix(word, "https://")
}

// readReleaseFile reads a release file on disk, and refuses what would not be
// honoured of one that names no bundle.
func (s *source) readReleaseFile(c *cli.Context) error {
	if isURL(s.word) {
		return nil // fetched when it is opened
	}
	var err error
	if s.file, err = releasefile.Read(s.word); err != nil {
		return err
	}
	if err := s.file.Check(); err != nil || s.file.Release.Artifact != "" {
		return err
	}
	if given := flags.PolicyGiven(c, s.site.settings()...); given != "" {
		return &flags.UsageError{
			Message: fmt.Sprintf("%s: nobody signs a release file, so that %s would not be honoured", s.word, given),
			Hint:    "leave it out; or build and sign a bundle of the release file, and install that",
		}
	}
	return s.refuseImages(c)
}

// refuseImages: a release file without a bundle has no place where its images
// would be, so that they are kept as written.
func (s *source) refuseImages(c *cli.Context) error {
	refuse := func(what string) error {
		return &flags.UsageError{
			Message: fmt.Sprintf("%s: the images of a release file are kept as they are written, and %s says otherwise", s.word, what),
			Hint:    "--images keep, or install a bundle of the release file",
		}
	}
	if mode := c.String("images"); mode != "" {
		if mode == imagesKeep {
			return nil
		}
		return refuse("--images " + mode)
	}
	if c.String("image-registry") != "" {
		return refuse("--image-registry")
	}
	if site := s.site.site; site != nil && site.Images != nil && (site.Images.Registry != "" || site.Images.Mode != "" && site.Images.Mode != imagesKeep) {
		return refuse("the site file " + s.site.path)
	}
	return nil
}

// openReleaseFile opens the bundle that the release file names, and without one
// fetches the charts as its lock says.
func (s *source) openReleaseFile(c *cli.Context, needPolicy bool) error {
	if isURL(s.word) {
		return s.openFetched(c, needPolicy)
	}
	if s.file.Release.Artifact == "" {
		return s.openLocal(c)
	}
	if err := s.openBundle(c, s.file.Release.Artifact, needPolicy); err != nil {
		return err
	}
	differences, err := s.file.Differences(s.opened.Bundle)
	if err != nil {
		return err
	}
	return sameRelease(s.word, s.file.Release.Artifact, differences)
}

// openFetched opens the bundle that a release file on a server names. Without one
// nobody vouches for what it says.
func (s *source) openFetched(c *cli.Context, needPolicy bool) error {
	client, err := flags.Client(c, nil, s.site.settings()...)
	if err != nil {
		return err
	}
	data, err := fetchFile(c.Context, client, s.word)
	if err != nil {
		return err
	}
	name := withoutQuery(s.word)
	release, err := bundle.ParseRelease(name, data)
	if err != nil {
		return err
	}
	if release.Artifact == "" {
		return &unvouchedError{name}
	}
	if err := s.openBundle(c, release.Artifact, needPolicy); err != nil {
		return err
	}
	return sameRelease(name, release.Artifact, release.Differences(s.opened.Bundle.Release))
}

// fetchFile reads a file of an http server, bounded.
func fetchFile(ctx context.Context, client *registry.Client, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, flags.Usagef("%q is no address", address)
	}
	base := *u
	base.Path, base.RawQuery = path.Dir(u.Path), ""
	rc, err := client.Get(ctx, base.String(), address)
	if err != nil {
		return nil, err
	}
	defer rc.Close() // only read from
	return files.ReadFrom(withoutQuery(address), io.Reader(rc))
}

// withoutQuery is an address to show: a query may hold a secret.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the address"
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return u.String()
}

// An unvouchedError reports a release file from a server that names no bundle.
type unvouchedError struct{ address string }

func (e *unvouchedError) Error() string {
	return e.address + " names no bundle (artifact:), and nobody signs a release file: nothing vouches for what a server says"
}

// ExitCode is that of a refused verification.
func (e *unvouchedError) ExitCode() int { return ui.ExitRefused }

// Hint says what may be installed instead.
func (e *unvouchedError) Hint() string {
	return "install the bundle; or look at the file and keep it, with its lock, on this machine: a local release file is your own word"
}

// sameRelease refuses a release file that is another release than the bundle it
// names.
func sameRelease(file, artifact string, differences []string) error {
	if len(differences) == 0 {
		return nil
	}
	return &otherReleaseError{file: file, artifact: artifact, differences: differences}
}

// An otherReleaseError reports a release file that was changed since the bundle
// it names was built.
type otherReleaseError struct {
	file, artifact string
	differences    []string
}

func (e *otherReleaseError) Error() string {
	return fmt.Sprintf("%s is not the release file of the bundle it names, %s: %s", e.file, e.artifact, strings.Join(e.differences, "; "))
}

// ExitCode is that of differences.
func (e *otherReleaseError) ExitCode() int { return ui.ExitDiffers }

// Hint says what to do about it.
func (e *otherReleaseError) Hint() string {
	return "build it anew and write the new digest into artifact:, or install the bundle by its own location"
}

// openLocal makes ready what a release file without a bundle names: the charts
// that its lock says, and nothing newer.
func (s *source) openLocal(c *cli.Context) error {
	local := rollout.ReleaseFile{Release: s.file.Release, Data: s.file.Data}
	var err error
	if local.ValuesFiles, err = s.file.ValuesFiles(); err != nil {
		return err
	}
	if local.Lock, local.LockData, err = s.file.ReadLock(); err != nil {
		return err
	}
	sources, wanted := releasefile.ResolveOptions{Values: local.ValuesFiles}, bundle.LockOptions{}
	if local.Lock != nil {
		wanted.Packed = local.Lock.Packed // either will do
	}
	if err := s.file.RequireFresh(c.Context, local.Lock, sources, wanted); err != nil {
		return err
	}
	sources.Images = wanted.Packed == bundle.PackedImages
	s.sayUnsigned(c)
	s.request.Source = rollout.FromReleaseFile(local)
	names, err := s.active(c.Context)
	if err != nil {
		return err
	}
	client, err := flags.Client(c, nil, s.site.settings()...)
	if err != nil {
		return err
	}
	sources.Network = releasefile.Network(client)
	if local.Charts, err = fetchCharts(c.Context, s.file, local.Lock, names, sources, flags.Talk(c)); err != nil {
		return err
	}
	s.request.Source = rollout.FromReleaseFile(local)
	s.request.Source.Location = s.word
	return nil
}

// sayUnsigned says that nobody vouches for a local release file but whoever runs
// the program, and which policy file that leaves out.
func (s *source) sayUnsigned(c *cli.Context) {
	talk := flags.Talk(c)
	talk.Sayf("%s (%s): not signed: a local release file is your own word; images are kept as they are written", s.word, digest.FromBytes(s.file.Data))
	if known := flags.KnownPolicy(); known != "" {
		talk.Sayf("the policy in %s does not apply to a release file", known)
	}
}

// active names the components that this request works on.
func (s *source) active(ctx context.Context) ([]string, error) {
	composed, err := rollout.Compose(ctx, s.request, nil)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(composed))
	for i, component := range composed {
		names[i] = component.Name
	}
	return names, nil
}

// fetchCharts returns the archives of the named components exactly as the lock
// says them, and shows how far it is.
func fetchCharts(ctx context.Context, file *releasefile.File, lock *bundle.Lock, names []string, sources releasefile.ResolveOptions, talk *ui.Talk) (map[string][]byte, error) {
	if len(names) == 0 {
		return nil, nil // every component is disabled
	}
	of := "the charts of " + file.Release.Name
	progress := talk.Progress(ui.Step{Doing: "fetching " + of, Did: "fetched " + of, Unit: "chart", Items: len(names)})
	defer progress.Close()
	sources.OnFetch = func(component, what string) { progress.Waiting(component + ": " + what) }
	sources.OnWarning = func(component, warning string) { talk.Warnf("component %s: %s", component, warning) }
	archives, err := file.LockedArchives(ctx, lock, names, sources, bundle.LockOptions{
		OnResolve:  func(component string) { progress.Start("the chart of " + component) },
		OnResolved: func(chart bundle.LockedChart) { progress.Finish("the chart of " + chart.Component) },
	})
	if err != nil {
		return nil, err
	}
	progress.End()
	return archives, nil
}
