package registry

import (
	"context"
	"io"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/internal/ref"
)

// A Repository reads from one repository of a registry without a root of its
// own, as for charts that are found by tag. It is safe for use at the same time.
type Repository struct{ place *remotePlace }

var (
	_ content.Fetcher  = (*Repository)(nil)
	_ content.Resolver = (*Repository)(nil)
)

// Repository opens HOST/PATH, with or without oci:// before it, without tag and
// digest. Nothing is asked yet.
//
// Errors: *LocationError for a name that is none.
func (c *Client) Repository(_ context.Context, name string) (*Repository, error) {
	l, err := ParseLocation(schemeRegistry + strings.TrimPrefix(name, schemeRegistry))
	if err != nil {
		return nil, err
	}
	if l.Ref.Tag != "" || l.Digest != "" {
		return nil, &LocationError{Input: l.String(), Reason: "has a tag or digest where a repository is wanted", Meant: schemeRegistry + l.Ref.Name()}
	}
	return &Repository{c.reading(ref.Reference{Host: l.Ref.Host, Repository: l.Ref.Repository})}, nil
}

// Fetch gives the content of a descriptor, checked as it is read. Content that
// isn't there is a *ContentError, which is oras-go's errdef.ErrNotFound too.
func (r *Repository) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	return r.place.Fetch(ctx, desc)
}

// Resolve finds a tag or digest. A *NotFoundError when there is none.
func (r *Repository) Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	return r.place.Resolve(ctx, reference)
}

// Tags calls fn with the tags as they are, page by page to the last.
func (r *Repository) Tags(ctx context.Context, fn func(tags []string) error) error {
	return r.place.tags(ctx, fn)
}
