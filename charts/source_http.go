package charts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/errdef"

	"waybill/internal/near"
)

// fromIndex finds a chart in a chart repository: its index says which versions
// there are, where each lies and what it is.
func (f *finder) fromIndex(ctx context.Context, o order) (*Chart, error) {
	entry, err := f.entry(ctx, o)
	if err != nil {
		return nil, err
	}
	want, checks, err := indexDigest(entry)
	if err != nil {
		return nil, o.wrong(entry.Version, "%v", err)
	}
	if o.pin != nil && o.pin.content != "" && checks && want != o.pin.content {
		return nil, &MovedError{Name: o.name(), Version: o.pin.version, Repository: o.where(), What: "archive", Locked: o.pin.content, Served: want}
	}
	if len(entry.URLs) == 0 {
		return nil, o.wrong(entry.Version, "its entry in index.yaml has no URL")
	}
	var failed []error
	for _, address := range entry.URLs {
		c, err := f.fromURL(ctx, o, entry, address, want)
		if err == nil {
			return c, nil
		}
		var moved *MovedError
		if ctx.Err() != nil || errors.As(err, &moved) {
			return nil, err
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// wrong is an error about one version of the chart.
func (o order) wrong(version, format string, args ...any) error {
	return &RepositoryError{Repository: o.where(), Chart: strings.TrimSpace(o.name() + " " + version), Reason: fmt.Sprintf(format, args...)}
}

// entry is the entry of the index that is meant.
func (f *finder) entry(ctx context.Context, o order) (indexEntry, error) {
	index, err := f.index(ctx, o.repository)
	if err != nil {
		return indexEntry{}, err
	}
	entries, faults := index.versions(o.name())
	if len(entries) == 0 {
		if len(faults) > 0 {
			return indexEntry{}, o.wrong("", "index.yaml: %s", faults[0])
		}
		return indexEntry{}, &NotFoundError{
			What: "chart " + o.name(), Where: o.where(), Near: near.Word(o.name(), index.names()), Err: errdef.ErrNotFound,
		}
	}
	versions := make([]string, len(entries))
	for i, entry := range entries {
		versions[i] = entry.Version
	}
	version, err := o.want.choose(o.where(), versions)
	var missing *NotFoundError
	if errors.As(err, &missing) && len(faults) > 0 {
		missing.Advice = strings.TrimPrefix(missing.Advice+"; and in index.yaml "+faults[0], "; ")
	}
	if err != nil {
		return indexEntry{}, err
	}
	for _, entry := range entries {
		if entry.Version == version {
			return entry, nil
		}
	}
	return indexEntry{}, o.wrong(version, "is not in its own index") // choose gives one of the versions
}

// index fetches and takes apart the index of a repository.
func (f *finder) index(ctx context.Context, repository string) (*repoIndex, error) {
	return cached(f.cache, "index "+repository, func() (*repoIndex, error) {
		address, err := below(repository, "index.yaml")
		if err != nil {
			return nil, &RepositoryError{Repository: masked(repository), Reason: err.Error()}
		}
		f.onFetch("index of " + masked(repository))
		data, err := f.get(ctx, repository, address, maxIndexBytes)
		switch {
		case errors.Is(err, errTooLarge):
			return nil, &RepositoryError{Repository: masked(repository), Reason: "its index.yaml " + errTooLargeIndex.Error()}
		case err != nil:
			return nil, fmt.Errorf("reading the index of chart repository %s: %w", masked(repository), err)
		}
		index, err := parseIndex(data)
		if err != nil {
			return nil, &RepositoryError{Repository: masked(repository), Reason: "its index.yaml " + err.Error()}
		}
		return index, nil
	})
}

// fromURL fetches a chart from one of the addresses that its entry gives.
func (f *finder) fromURL(ctx context.Context, o order, entry indexEntry, address string, want digest.Digest) (*Chart, error) {
	if isRegistry(address) {
		return f.fromIndexedRegistry(ctx, o, entry, address, want)
	}
	full, err := below(o.repository, address)
	if err != nil {
		return nil, o.wrong(entry.Version, "the URL in its index entry: %v", err)
	}
	f.onFetch(fmt.Sprintf("chart %s %s from %s", o.name(), entry.Version, masked(full)))
	tgz, err := f.get(ctx, o.repository, full, maxArchiveBytes)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, o.wrong(entry.Version, "%s is larger than a chart may be (%d bytes)", masked(full), int64(maxArchiveBytes))
	case err != nil:
		return nil, fmt.Errorf("fetching chart %s %s: %w", o.name(), entry.Version, err)
	case !isGzip(tgz):
		return nil, o.wrong(entry.Version, "%s is %s", masked(full), whatInstead(tgz))
	}
	if got := digest.FromBytes(tgz); want != "" && got != want {
		return nil, o.wrong(entry.Version, "%s is %s, its entry in index.yaml says %s", masked(full), got, want)
	}
	return f.withProvenance(ctx, o, entry.Version, full, tgz)
}

// withProvenance makes the chart of an archive, with the signature that lies
// beside it when there is one.
func (f *finder) withProvenance(ctx context.Context, o order, version, address string, tgz []byte) (*Chart, error) {
	c, err := openArchive(tgz, nil)
	if err != nil {
		return nil, titled(err, fmt.Sprintf("%s %s of %s", o.name(), version, o.where()))
	}
	if err := checkName(c, o, version); err != nil {
		return nil, err
	}
	if o.pin != nil && (o.pin.manifest == "" || o.pin.manifest == c.Manifest) {
		return c, checkPin(c, o) // as it was locked, without a signature
	}
	if o.pin != nil && o.pin.content != c.Content {
		return nil, checkPin(c, o)
	}
	provenance, warning, err := f.provenance(ctx, o, version, address)
	if err != nil {
		return nil, err
	}
	if len(provenance) > 0 {
		if c, err = openArchive(tgz, provenance); err != nil {
			return nil, err
		}
	}
	if warning != "" {
		c.Warnings = append(c.Warnings, warning)
	}
	return c, checkPin(c, o)
}

// provenance fetches the signature beside an archive. What could not be
// determined is told: the chart goes without it. A chart that was locked with a
// signature does not.
func (f *finder) provenance(ctx context.Context, o order, version, address string) (data []byte, warning string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, "", err
	}
	u.Path, u.RawPath = u.Path+".prov", u.EscapedPath()+".prov"
	data, err = f.get(ctx, o.repository, u.String(), maxProvenanceBytes)
	switch {
	case errors.Is(err, errdef.ErrNotFound), errors.Is(err, ErrForbidden):
		return nil, "", nil
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case err != nil && o.pin != nil:
		return nil, "", fmt.Errorf("fetching the signature of chart %s %s: %w", o.name(), version, err)
	case err != nil:
		return nil, fmt.Sprintf("chart %s %s is taken without a signature: whether %s has one could not be determined: %v", o.name(), version, o.where(), err), nil
	case !bytes.HasPrefix(bytes.TrimSpace(data), []byte("-----BEGIN PGP")):
		return nil, fmt.Sprintf("chart %s %s is taken without a signature: %s is %s", o.name(), version, masked(u.String()), whatInstead(data)), nil
	}
	return data, "", nil
}

// indexDigest is what the index says of the archive. Helm writes the bare
// hexadecimal digits, others with sha256: before them.
func indexDigest(entry indexEntry) (digest.Digest, bool, error) {
	text := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(entry.Digest), "sha256:"))
	if text == "" {
		return "", false, nil
	}
	if !hexDigest.MatchString(text) {
		return "", false, fmt.Errorf("its digest in index.yaml (%q) is no SHA-256", entry.Digest)
	}
	return digest.NewDigestFromEncoded(digest.SHA256, text), true, nil
}

var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// below is an address that a repository's index gives: absolute, or beginning
// at the repository, whose query (a token, on some) it then keeps.
func below(repository, address string) (string, error) {
	base, err := url.Parse(repository)
	if err != nil {
		return "", fmt.Errorf("%q is no URL", masked(repository))
	}
	u, err := url.Parse(address)
	if err != nil || address == "" {
		return "", fmt.Errorf("%q is no URL", masked(address))
	}
	if u.IsAbs() {
		if u.Scheme != "http" && u.Scheme != "https" {
			return "", fmt.Errorf("%q is neither http nor https", masked(address))
		}
		return u.String(), nil
	}
	if !strings.HasSuffix(base.Path, "/") {
		base.Path, base.RawPath = base.Path+"/", base.EscapedPath()+"/"
	}
	full := base.ResolveReference(u)
	if u.RawQuery == "" && u.Host == "" {
		full.RawQuery = base.RawQuery
	}
	return full.String(), nil
}

var errTooLarge = errors.New("too large")

// get reads a whole file of a chart repository.
func (f *finder) get(ctx context.Context, base, address string, limit int64) (data []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rc, err := f.net.Get(ctx, base, address)
	if err != nil {
		return nil, err
	}
	defer rc.Close() // only read from
	return readAtMost(rc, limit)
}

// readAtMost reads all there is; more than the limit is errTooLarge.
func readAtMost(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, errTooLarge
	}
	return data, nil
}

// whatInstead says what bytes are that are not what was hoped for.
func whatInstead(data []byte) string {
	switch text := bytes.TrimSpace(data); {
	case len(text) == 0:
		return "empty"
	case text[0] == '<':
		return "a web page (HTML or XML), not the file"
	case text[0] == '{':
		return "JSON, not the file"
	}
	return "something else than the file"
}
