package registry

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"waybill/internal/files"
	"waybill/internal/netrc"
)

// chartRepositories is what this machine knows of chart repositories: the
// entries that helm repo add writes, and the logins in netrc.
type chartRepositories struct {
	hosts     *hostRules
	helmFile  string // Helm's repositories.yaml; empty: nothing says where it is
	netrcFile string

	mu      sync.Mutex
	entries []chartRepository
	logins  []netrc.Login
	loaded  bool
	tls     map[string]*ownTLS // by the name of the entry
}

// chartRepository is an entry of repositories.yaml, in Helm's words.
type chartRepository struct {
	Name               string `json:"name"`
	URL                string `json:"url"`
	Username           string `json:"username"`
	Password           string `json:"password"`
	CertFile           string `json:"certFile"`
	KeyFile            string `json:"keyFile"`
	CAFile             string `json:"caFile"`
	Insecure           bool   `json:"insecure_skip_tls_verify"`
	PassCredentialsAll bool   `json:"pass_credentials_all"`
}

func (e chartRepository) hasTLS() bool {
	return e.CAFile != "" || e.CertFile != "" || e.KeyFile != "" || e.Insecure
}

func newChartRepositories(s Settings, hosts *hostRules) *chartRepositories {
	return &chartRepositories{
		hosts: hosts, helmFile: cmp.Or(s.Getenv("HELM_REPOSITORY_CONFIG"), s.places().HelmFile("repositories.yaml")),
		netrcFile: netrcFile(s), tls: map[string]*ownTLS{},
	}
}

// netrcFile is where curl and git look.
func netrcFile(s Settings) string {
	if file := s.Getenv("NETRC"); file != "" || s.Home == "" {
		return file
	}
	if runtime.GOOS == "windows" {
		return filepath.Join(s.Home, "_netrc")
	}
	return filepath.Join(s.Home, ".netrc")
}

// repositoryAccess says how one chart repository, or one git repository, is
// reached.
type repositoryAccess struct {
	repository         *url.URL
	entry              chartRepository // the zero value when there is none
	username, password string
	source             string // where the login came from, or where none was found
	everywhere         bool   // the login goes to any host
	tls                *ownTLS
}

// goesTo says whether the login may be sent to an address.
func (a repositoryAccess) goesTo(u *url.URL) bool {
	if a.username == "" && a.password == "" {
		return false
	}
	downgrade := a.repository.Scheme == "https" && u.Scheme != "https"
	return origin(a.repository) == origin(u) || a.everywhere && !downgrade
}

// access finds how the repository at an address is reached: by the entry of
// repositories.yaml whose URL is the longest prefix, and where that has no
// login, by netrc.
func (r *chartRepositories) access(repository *url.URL) (repositoryAccess, error) {
	a := repositoryAccess{repository: repository}
	if err := r.load(); err != nil {
		return a, err
	}
	for _, entry := range r.entries {
		if isPrefix(entry.URL, repository) && len(entry.URL) > len(a.entry.URL) {
			a.entry = entry
		}
	}
	if a.entry.Username != "" || a.entry.Password != "" {
		a.username, a.password, a.everywhere = a.entry.Username, a.entry.Password, a.entry.PassCredentialsAll
		a.source = fmt.Sprintf("credentials from %s (%s)", r.helmFile, a.entry.Name)
		return a, nil
	}
	login, found := netrc.Find(r.logins, repository.Hostname())
	switch {
	case found && r.inTheClear(repository):
		a.source = fmt.Sprintf("credentials from %s are not sent without TLS; --plain-http-host %s allows it", r.netrcFile, repository.Host)
	case found:
		a.username, a.password, a.source = login.User, login.Password, "credentials from "+r.netrcFile
	default:
		a.source = r.nothing()
	}
	return a, nil
}

// inTheClear says whether a login of netrc, which knows hosts and no schemes,
// would be told to the whole network.
func (r *chartRepositories) inTheClear(u *url.URL) bool {
	return u.Scheme != "https" && !r.hosts.plain(u.Host)
}

func (r *chartRepositories) nothing() string {
	var files []string
	for _, file := range []string{r.helmFile, r.netrcFile} {
		if file != "" {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return "no credentials file was looked at"
	}
	return "no credentials in " + strings.Join(files, " or ")
}

// isPrefix says whether a repository's URL, as it was written, is address or
// leads to it by whole parts of its path.
func isPrefix(written string, address *url.URL) bool {
	u, err := url.Parse(written)
	if err != nil || origin(u) != origin(address) {
		return false
	}
	prefix, path := strings.TrimRight(u.Path, "/"), strings.TrimRight(address.Path, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// RepositoryURL gives the address of a chart repository by the name that helm
// repo add gave it, as dependencies of charts have it (@NAME, alias:NAME; the
// name alone is wanted here). A *NotFoundError when there is none.
func (c *Client) RepositoryURL(name string) (string, error) {
	if err := c.charts.load(); err != nil {
		return "", err
	}
	notFound := &NotFoundError{Ref: c.charts.helmFile, What: fmt.Sprintf("repository %q", name)}
	if c.charts.helmFile == "" {
		notFound.Ref = "Helm's repositories.yaml"
	}
	for _, entry := range c.charts.entries {
		if entry.Name == name {
			return entry.URL, nil
		}
		notFound.Known = append(notFound.Known, entry.Name)
	}
	return "", notFound
}

// load reads both files, once. One that isn't there has nothing in it.
func (r *chartRepositories) load() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded {
		return nil
	}
	fail := func(file string, err error) error {
		return &CredentialsError{Host: "chart repositories", Source: file, Err: err}
	}
	data, err := readConfig(r.helmFile)
	if err != nil {
		return fail(r.helmFile, err)
	}
	var file struct {
		Repositories []chartRepository `json:"repositories"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		return fail(r.helmFile, errors.New("the file is not YAML as helm repo add writes it")) // the decoder's words may quote a secret
	}
	if data, err = readConfig(r.netrcFile); err != nil {
		return fail(r.netrcFile, err)
	}
	r.entries, r.logins, r.loaded = file.Repositories, netrc.Parse(string(data)), true
	return nil
}

// maxConfig bounds the files of logins, in bytes.
const maxConfig = 16 << 20

// readConfig reads a file that may be absent, or no regular one (/dev/null).
func readConfig(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, files.PlainError(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("larger than %d bytes", maxConfig)
	}
	return data, files.PlainError(err)
}

// ownTLS makes the transports of a repository whose entry speaks of TLS; nil
// for one that doesn't. They are kept, so that connections are.
func (c *Client) ownTLS(a repositoryAccess) (*ownTLS, error) {
	if !a.entry.hasTLS() {
		return nil, nil
	}
	c.charts.mu.Lock()
	defer c.charts.mu.Unlock()
	if own := c.charts.tls[a.entry.Name]; own != nil {
		return own, nil
	}
	own, err := c.makeOwnTLS(a)
	if err != nil {
		return nil, &CredentialsError{Host: a.repository.Host, Source: fmt.Sprintf("%s (%s)", c.charts.helmFile, a.entry.Name), Err: err}
	}
	c.charts.tls[a.entry.Name] = own
	return own, nil
}

func (c *Client) makeOwnTLS(a repositoryAccess) (*ownTLS, error) {
	config, err := tlsConfig(c.settings)
	if err != nil {
		return nil, err
	}
	if a.entry.CAFile != "" {
		if err := addRoots(config, a.entry.CAFile); err != nil {
			return nil, err
		}
	}
	own := &ownTLS{origin: origin(a.repository), others: baseTransport(c.settings, config.Clone())}
	if err := addClientCertificate(config, a.entry.CertFile, a.entry.KeyFile); err != nil {
		return nil, err
	}
	config.InsecureSkipVerify = a.entry.Insecure || c.hosts.insecure(a.repository.Host)
	own.itself = baseTransport(c.settings, config)
	return own, nil
}
