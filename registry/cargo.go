package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
)

// cargo is what an archive will hold, before it is written: what was pushed,
// which is small and stays in memory, and what copies have promised.
type cargo struct {
	mu          sync.Mutex
	held        map[digest.Digest][]byte
	cached      int64 // how many bytes of held are promised too
	promised    map[digest.Digest]promise
	sources     map[*Source]func() error // held open
	concurrency int                      // the most that a copy asked for; 0: none did
}

func newCargo() *cargo {
	return &cargo{held: map[digest.Digest][]byte{}, promised: map[digest.Digest]promise{}, sources: map[*Source]func() error{}}
}

// What is read of promises before they are kept stays in memory, so that it is
// read once: documents and signatures, which are looked at before the archive
// has its name.
const (
	maxCachedBlob = 4 << 20
	maxCached     = 16 << 20
)

// write keeps pushed content.
func (c *cargo) write(desc ocispec.Descriptor, r io.Reader, place string) error {
	rc, err := checked(io.NopCloser(r), desc, "content for "+place)
	if err != nil {
		return err
	}
	if size, err := c.size(desc.Digest); err == nil && size == desc.Size {
		return nil
	}
	data, err := io.ReadAll(rc)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[desc.Digest] = data
	return nil
}

// promise notes that a blob will be read from a source. Of two promises of one
// blob the first stays.
func (c *cargo) promise(p promise, concurrency int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.concurrency = max(c.concurrency, concurrency)
	if _, twice := c.promised[p.desc.Digest]; twice {
		return
	}
	c.promised[p.desc.Digest] = p
	if c.sources[p.src] == nil {
		c.sources[p.src] = p.src.hold()
	}
}

func (c *cargo) find(d digest.Digest) (data []byte, isHeld bool, p promise, isPromised bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	data, isHeld = c.held[d]
	p, isPromised = c.promised[d]
	return data, isHeld, p, isPromised
}

// fetch reads a promise before its time.
func (c *cargo) fetch(ctx context.Context, p promise) (io.ReadCloser, error) {
	rc, err := p.open(ctx, 0)
	if err == nil {
		rc, err = checked(rc, p.desc, p.src.place.name())
	}
	if errors.Is(err, errdef.ErrNotFound) {
		// Not what is here is incomplete, but where it comes from.
		err = &ContentError{Ref: p.src.place.name(), Digest: p.desc.Digest, Reason: "is missing"}
	}
	if err != nil && p.failed != nil {
		err = p.failed(err)
	}
	if err != nil || p.desc.Size > maxCachedBlob {
		return rc, err
	}
	defer rc.Close() // it was only read from
	data, err := io.ReadAll(rc)
	if err != nil {
		return nil, err
	}
	c.cache(p.desc, data)
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (c *cargo) cache(desc ocispec.Descriptor, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.held[desc.Digest]; !twice && c.cached+desc.Size <= maxCached {
		c.held[desc.Digest] = data
		c.cached += desc.Size
	}
}

// open gives what is in memory.
func (c *cargo) open(d digest.Digest) (blobFile, int64, error) {
	data, isHeld, _, _ := c.find(d)
	if !isHeld {
		return nil, 0, fs.ErrNotExist
	}
	return memoryBlob{bytes.NewReader(data)}, int64(len(data)), nil
}

// memoryBlob is a blob in memory.
type memoryBlob struct{ *bytes.Reader }

func (memoryBlob) Close() error { return nil }

// size counts what is promised as there.
func (c *cargo) size(d digest.Digest) (int64, error) {
	data, isHeld, p, isPromised := c.find(d)
	switch {
	case isHeld:
		return int64(len(data)), nil
	case isPromised:
		return p.desc.Size, nil
	}
	return 0, fs.ErrNotExist
}

// supply is where the bytes of a blob come from; false for one that is neither
// held nor promised.
func (c *cargo) supply(desc ocispec.Descriptor) (supply, bool) {
	data, isHeld, p, isPromised := c.find(desc.Digest)
	o := supply{}
	switch {
	case isPromised:
		o = p.supply()
	case isHeld:
		o = plainSupply("memory", nil)
	default:
		return o, false
	}
	if isHeld {
		o.open = func(_ context.Context, offset int64) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(data[min(offset, int64(len(data))):])), nil
		}
	}
	return o, true
}

// Close lets go of the sources.
func (c *cargo) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var failed []error
	for _, release := range c.sources {
		failed = append(failed, release())
	}
	return errors.Join(failed...)
}
