package flags

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/bundle"
	"waybill/internal/door"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
)

// Locations parses the locations a person typed.
func Locations(words []string) ([]registry.Location, error) {
	var out []registry.Location
	for _, word := range words {
		loc, err := registry.ParseLocation(word)
		if err != nil {
			return nil, err
		}
		out = append(out, loc)
	}
	return out, nil
}

// RegistrySettings returns how registries are reached, as the flags want it.
// --plain-http and --insecure-skip-tls-verify count for the hosts of named.
func RegistrySettings(c *cli.Context, named ...registry.Location) (registry.Settings, error) {
	s := registry.Settings{
		CAFiles: c.StringSlice("ca-file"), CertFile: c.String("cert-file"), KeyFile: c.String("key-file"),
		PlainHTTPHosts: c.StringSlice("plain-http-host"), InsecureHosts: c.StringSlice("insecure-host"),
		TLSHosts: c.StringSlice("tls-host"), ConfigFile: c.String("registry-config"),
		Concurrency: c.Int("concurrency"), Retry: c.Int("retry"),
		MaxRetryWait: c.Duration("max-retry-wait"), IdleTimeout: c.Duration("idle-timeout"),
		UserAgent: "waybill/" + Version, Getenv: os.Getenv,
	}
	if s.Concurrency < 1 {
		return s, Usagef("--concurrency %d: at least one transfer must run", s.Concurrency)
	}
	if s.Retry < 0 {
		return s, Usagef("--retry %d: it is a number of times", s.Retry)
	}
	if s.Retry == 0 {
		s.Retry = -1 // of the settings, 0 is the default
	}
	if err := transferSettings(c, &s); err != nil {
		return s, err
	}
	if home, err := os.UserHomeDir(); err == nil {
		s.Home = home
	}
	overrides, err := registryOverrides(c)
	if err != nil {
		return s, err
	}
	s.Overrides = overrides
	for _, loc := range named {
		if loc.Kind != registry.Registry {
			continue
		}
		if c.Bool("plain-http") {
			s.PlainHTTPHosts = append(s.PlainHTTPHosts, loc.Ref.Host)
		}
		if c.Bool("insecure-skip-tls-verify") {
			s.InsecureHosts = append(s.InsecureHosts, loc.Ref.Host)
		}
	}
	s.OnPause = func(host string, wait time.Duration) {
		Talk(c).Sayf("%s is asked nothing for %s: it says that it is busy", host, wait.Round(time.Second/10))
	}
	s.Wrap = Talk(c).WatchRequests()
	if c.Bool("debug") {
		watch, log := s.Wrap, ui.LogRequests(Talk(c).Writer())
		s.Wrap = func(rt http.RoundTripper) http.RoundTripper { return watch(log(rt)) }
	}
	return s, nil
}

// registryOverrides reads --registry-override. Whether both sides are hosts is
// the registry's to say.
func registryOverrides(c *cli.Context) (map[string]string, error) {
	overrides := map[string]string{}
	for _, word := range c.StringSlice("registry-override") {
		upstream, cache, ok := strings.Cut(word, "=")
		if !ok || upstream == "" || cache == "" {
			return nil, &UsageError{Message: "--registry-override wants UPSTREAM=CACHE", Hint: "for example docker.io=cache.example/hub"} // the word may hold a password
		}
		if other, twice := overrides[upstream]; twice && other != cache {
			return nil, Usagef("--registry-override %s stands there twice, with different caches", upstream)
		}
		overrides[upstream] = cache
	}
	return overrides, nil
}

// PolicyChoice returns what the flags and the known places say of the policy;
// keys are the public keys of --key.
func PolicyChoice(c *cli.Context, keys []string) (door.PolicyChoice, error) {
	choice := door.PolicyChoice{
		Flags: bundle.VerifyBlock{
			Keys: keys, TrustedRoot: c.String("trusted-root"),
			RequireLog: c.Bool("require-log"), RequireTimestamp: c.Bool("require-timestamp"),
			AllowUnsigned: c.Bool("allow-unsigned"),
		},
		File: c.String("policy"),
	}
	if c.IsSet("threshold") {
		if choice.Flags.Threshold = c.Int("threshold"); choice.Flags.Threshold < 1 {
			return choice, Usagef("--threshold %d: at least one signer must be needed", choice.Flags.Threshold)
		}
	}
	identity, err := identityFlags(c)
	if err != nil {
		return choice, err
	}
	choice.Flags.Identities = identity
	choice.Known = knownPolicies()
	return choice, nil
}

// knownPolicies are the places of the user's and the machine's policy file.
func knownPolicies() []string {
	var known []string
	if dir, err := os.UserConfigDir(); err == nil {
		known = append(known, filepath.Join(dir, "waybill", "policy.yaml"))
	}
	return append(known, filepath.FromSlash("/etc/waybill/policy.yaml"))
}

// KnownPolicy is the user's or the machine's policy file, the first one that is
// there, "" for none.
func KnownPolicy() string {
	for _, path := range knownPolicies() {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

func identityFlags(c *cli.Context) ([]bundle.Identity, error) {
	id := bundle.Identity{
		Subject: c.String("certificate-identity"), SubjectRegexp: c.String("certificate-identity-regexp"),
		Issuer: c.String("certificate-oidc-issuer"),
	}
	switch {
	case id == bundle.Identity{}:
		return nil, nil
	case id.Subject == "" && id.SubjectRegexp == "":
		return nil, &UsageError{Message: "--certificate-oidc-issuer says who vouches, not for whom", Hint: "add --certificate-identity"}
	case id.Subject != "" && id.SubjectRegexp != "":
		return nil, Usagef("--certificate-identity and --certificate-identity-regexp exclude each other")
	case id.Issuer == "":
		return nil, &UsageError{Message: "a certificate identity counts only with the issuer that vouches for it", Hint: "add --certificate-oidc-issuer"}
	}
	return []bundle.Identity{id}, nil
}

// LoadPolicy returns the policy that flags, a site's verify block and the known
// places say, nil for none; keys are the public keys of --key.
func LoadPolicy(c *cli.Context, keys []string, site ...SiteSettings) (*signing.Policy, error) {
	choice, err := PolicyChoice(c, keys)
	if err != nil {
		return nil, err
	}
	for _, s := range site {
		choice.Site, choice.SiteFile = s.Verify, s.File
	}
	return door.LoadPolicy(c.Context, choice)
}

// Open opens the bundle at the location a person typed, as the registry and
// policy flags and the policy files want it. A site's verify block and registry
// settings are in site.
func Open(c *cli.Context, word string, opts door.Options, site ...SiteSettings) (*door.Opened, error) {
	loc, err := registry.ParseLocation(word)
	if err != nil {
		return nil, err
	}
	if opts.Policy, err = LoadPolicy(c, c.StringSlice("key"), site...); err != nil {
		return nil, err
	}
	client, err := Client(c, []registry.Location{loc}, site...)
	if err != nil {
		return nil, err
	}
	p := Talk(c).Progress(ui.Step{Doing: "checking " + loc.String(), Unit: "part", Brief: true})
	defer p.Close()
	opts.OnCheck = func(desc ocispec.Descriptor) { p.Start(desc.Digest.String()) }
	opts.OnRead = p.Advance
	opts.OnChecked = func(desc ocispec.Descriptor) { p.Finish(desc.Digest.String()) }
	opened, err := door.Open(c.Context, client, loc, opts)
	if err != nil {
		return nil, err
	}
	SayDelta(c, opened)
	return opened, nil
}

// SayDelta says of a delta that it is one, and what it needs.
func SayDelta(c *cli.Context, opened *door.Opened) {
	if delta := opened.Source.Delta(); delta != nil {
		Talk(c).Sayf("%s: %s", opened.Location, delta)
	}
}

// OpenAndSay is [Open] for a command whose result does not say what was
// verified: it is said beside it.
func OpenAndSay(c *cli.Context, word string, opts door.Options, site ...SiteSettings) (*door.Opened, error) {
	opened, err := Open(c, word, opts, site...)
	if err == nil {
		Talk(c).Sayf("%s: %s", opened.Location, opened.Verification)
	}
	return opened, err
}

// Client returns the way to registries and repositories, as the flags and the
// site file want it. The switches for the hosts named in a command count for
// those of named.
func Client(c *cli.Context, named []registry.Location, site ...SiteSettings) (*registry.Client, error) {
	settings, err := RegistrySettings(c, named...)
	if err != nil {
		return nil, err
	}
	for _, s := range site {
		s.apply(c, &settings)
	}
	return registry.NewClient(settings)
}

// PolicyGiven names what of the command line and the site file says who may have
// signed, "" for nothing. The user's and the machine's policy files are not given
// with a command.
func PolicyGiven(c *cli.Context, site ...SiteSettings) string {
	for _, f := range Policy() {
		if name := f.Names()[0]; c.IsSet(name) {
			return "--" + name
		}
	}
	for _, s := range site {
		if s.Verify != nil {
			return "verify of the site file " + s.File
		}
	}
	return ""
}

// SiteSettings is what a site file says of opening a bundle.
type SiteSettings struct {
	File     string // the site file, for messages and relative paths
	Verify   *bundle.VerifyBlock
	Registry *bundle.SiteRegistry
}

// apply adds the site file's registry settings to those of the flags, which win.
func (s SiteSettings) apply(c *cli.Context, settings *registry.Settings) {
	r := s.Registry
	if r == nil {
		return
	}
	for _, file := range r.CAFiles {
		settings.CAFiles = append(settings.CAFiles, s.path(file))
	}
	if settings.CertFile == "" && settings.KeyFile == "" {
		settings.CertFile, settings.KeyFile = s.path(r.CertFile), s.path(r.KeyFile)
	}
	if settings.ConfigFile == "" {
		settings.ConfigFile = s.path(r.ConfigFile)
	}
	if r.Concurrency > 0 && !c.IsSet("concurrency") {
		settings.Concurrency = r.Concurrency
	}
	if r.Retry > 0 && !c.IsSet("retry") {
		settings.Retry = r.Retry
	}
	settings.PlainHTTPHosts = append(settings.PlainHTTPHosts, r.PlainHTTPHosts...)
	settings.InsecureHosts = append(settings.InsecureHosts, r.InsecureHosts...)
	settings.TLSHosts = append(settings.TLSHosts, r.TLSHosts...)
	for upstream, cache := range r.Overrides {
		if _, given := settings.Overrides[upstream]; !given {
			settings.Overrides[upstream] = cache
		}
	}
}

func (s SiteSettings) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(s.File), name)
}
