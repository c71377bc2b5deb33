package registry

import (
	"errors"
	"io/fs"

	"github.com/opencontainers/go-digest"
)

// layered looks in one store and then in another.
type layered struct{ first, second blobStore }

func (l layered) open(d digest.Digest) (blobFile, int64, error) {
	rc, size, err := l.first.open(d)
	if errors.Is(err, fs.ErrNotExist) {
		return l.second.open(d)
	}
	return rc, size, err
}

func (l layered) size(d digest.Digest) (int64, error) {
	size, err := l.first.size(d)
	if errors.Is(err, fs.ErrNotExist) {
		return l.second.size(d)
	}
	return size, err
}

func (l layered) Close() error { return errors.Join(l.first.Close(), l.second.Close()) }
