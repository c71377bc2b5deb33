package registry

import (
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/ref"
)

// checkedReader hands out bytes and fails instead of ending well when they are
// not what the descriptor promised. The last bytes are held back until the
// digest is known to be right, so that who reads exactly desc.Size bytes is safe too.
type checkedReader struct {
	io.ReadCloser
	place    string
	desc     ocispec.Descriptor
	left     int64
	hashed   int64 // bytes that come again and were hashed before
	unhashed bool  // only the size is looked at
	verifier digest.Verifier
	err      error
}

// checked wraps content that is said to be desc. It closes rc when the
// descriptor itself is bad.
func checked(rc io.ReadCloser, desc ocispec.Descriptor, place string) (io.ReadCloser, error) {
	r, err := newCheckedReader(rc, desc, place)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func newCheckedReader(rc io.ReadCloser, desc ocispec.Descriptor, place string) (*checkedReader, error) {
	if err := checkDescriptor(desc, place); err != nil {
		_ = rc.Close()
		return nil, err
	}
	return &checkedReader{ReadCloser: rc, place: place, desc: desc, left: desc.Size, verifier: desc.Digest.Verifier()}, nil
}

// again goes on with a reader of the same content that begins at an offset, no
// further than was read.
func (r *checkedReader) again(rc io.ReadCloser, offset int64) {
	read := r.desc.Size - r.left
	r.ReadCloser, r.err = rc, nil
	r.left, r.hashed = r.desc.Size-offset, r.hashed+read-offset
}

// checkDescriptor refuses descriptors that nothing can be checked against, and
// manifests larger than registries take.
func checkDescriptor(desc ocispec.Descriptor, place string) error {
	bad := func(reason string) error {
		return &ContentError{Ref: place, Digest: desc.Digest, Reason: reason}
	}
	if err := ref.CheckDigest(desc.Digest.String()); err != nil {
		return &ContentError{Ref: place, Reason: "a descriptor is wrong: " + err.Error()}
	}
	if desc.Size < 0 {
		return bad(fmt.Sprintf("its descriptor says it is %d bytes long", desc.Size))
	}
	if isManifest(desc.MediaType) && desc.Size > maxManifest {
		return bad(fmt.Sprintf("a manifest of %d bytes; more than 4 MiB is refused", desc.Size))
	}
	return nil
}

func (r *checkedReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	if r.left == 0 {
		return 0, r.finish()
	}
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.ReadCloser.Read(p)
	if !r.unhashed {
		known := min(r.hashed, int64(n))
		r.hashed -= known
		_, _ = r.verifier.Write(p[known:n]) // hashes don't fail
	}
	r.left -= int64(n)
	switch {
	case r.left == 0 && !r.isRight():
		r.err = r.wrong("corrupt: the content is not what its digest says")
		return 0, r.err
	case r.left == 0:
		return n, nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		r.err = r.wrong(fmt.Sprintf("truncated: %d of %d bytes", r.desc.Size-r.left, r.desc.Size))
		return n, r.err
	case err != nil:
		r.err = err
	}
	return n, err
}

// finish looks for bytes too many once all promised ones are there.
func (r *checkedReader) finish() error {
	var extra [1]byte
	n, err := io.ReadFull(r.ReadCloser, extra[:])
	switch {
	case n > 0:
		r.err = r.wrong(fmt.Sprintf("corrupt: longer than the %d bytes its descriptor says", r.desc.Size))
	case !r.isRight(): // of no bytes at all
		r.err = r.wrong("corrupt: the content is not what its digest says")
	case err != io.EOF:
		r.err = err
	default:
		r.err = io.EOF
	}
	return r.err
}

func (r *checkedReader) isRight() bool { return r.unhashed || r.verifier.Verified() }

func (r *checkedReader) wrong(reason string) error {
	return &ContentError{Ref: r.place, Digest: r.desc.Digest, Reason: reason}
}
