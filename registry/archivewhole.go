package registry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"

	"waybill/internal/tarball"
)

// isWritten says whether a file is a planned tar, to the byte. Most that are not
// it are told from it by their sizes and headers; of one that looks like it all
// content is read.
func isWritten(ctx context.Context, path string, plan *tarPlan, concurrency int) (bool, error) {
	f, size, err := openRegular(path)
	if err != nil || size != plan.tar.Size() {
		if err == nil {
			err = f.Close()
		}
		return false, ignoreMissing(err)
	}
	defer f.Close() // it was only read from
	for _, check := range []func(context.Context, io.ReaderAt, tarPart) bool{hasHeader, hasContent} {
		err := each(ctx, concurrency, len(plan.parts), func(ctx context.Context, i int) error {
			if !check(ctx, f, plan.parts[i]) {
				return cmp.Or(ctx.Err(), errOther)
			}
			return nil
		})
		if errors.Is(err, errOther) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return isZero(f, plan.tar.Trailer(), plan.tar.Size()), nil
}

// errOther is an answer within this package: it is another file.
var errOther = errors.New("another file")

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) || as[*ContentError](err) {
		return nil
	}
	return err
}

func hasHeader(_ context.Context, r io.ReaderAt, part tarPart) bool {
	want, err := tarball.Header(part.Name, part.Size)
	if err != nil {
		return false
	}
	got := make([]byte, len(want))
	if _, err := r.ReadAt(got, part.Header); err != nil || !bytes.Equal(got, want) {
		return false
	}
	return part.data == nil || hasBytes(r, part.Offset, part.data)
}

func hasBytes(r io.ReaderAt, at int64, want []byte) bool {
	got := make([]byte, len(want))
	n, _ := r.ReadAt(got, at)
	return n == len(want) && bytes.Equal(got, want)
}

func hasContent(ctx context.Context, r io.ReaderAt, part tarPart) bool {
	if !isZero(r, part.Offset+part.Size, part.End()) {
		return false
	}
	if part.data != nil {
		return true
	}
	verifier := part.content().Verifier()
	buffer := largeBuffers.Get().(*partBuffer)
	defer largeBuffers.Put(buffer)
	_, err := io.CopyBuffer(struct{ io.Writer }{verifier}, tellingReader{ctx, io.NewSectionReader(r, part.Offset, part.Size), func(int) {}}, buffer.data)
	return err == nil && verifier.Verified()
}

func isZero(r io.ReaderAt, from, to int64) bool { return hasBytes(r, from, make([]byte, to-from)) }
