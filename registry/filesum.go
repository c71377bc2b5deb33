package registry

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/opencontainers/go-digest"

	"waybill/internal/files"
)

// A tarSum is the SHA-256 of a tar, computed while it is written.
type tarSum struct {
	size int64
	done chan struct{} // nil: not begun
	sum  string        // empty when it did not come to be
}

// follow computes it behind those who write a planned tar. resume is how far an
// interrupted write was. A nil sum is one that nobody asks for.
func (s *tarSum) follow(plan *tarPlan, to *partialFile, resume claim) *tarFollower {
	if s == nil || runtime.GOOS == "windows" { // which renames nothing that is open
		return nil
	}
	file, err := os.Open(to.name())
	if err != nil {
		return nil // it will be read when somebody asks
	}
	s.size = plan.tar.Size()
	s.done = make(chan struct{})
	h := digest.SHA256.Digester()
	f := newTarFollower(plan, file, to.journal, h.Hash(), resume)
	go func() {
		defer close(s.done)
		defer file.Close() // it was only read from
		if whole, err := f.run(); err == nil && whole {
			_, _ = h.Hash().Write(make([]byte, tarEnd)) // hashes don't fail
			s.sum = h.Digest().Encoded()
		}
	}()
	return f
}

// wait gives the size and the sum of the file at path.
func (s *tarSum) wait(ctx context.Context, path string) (int64, string, error) {
	if s.done != nil {
		<-s.done
		if s.sum != "" {
			return s.size, s.sum, nil
		}
	}
	return hashFile(ctx, path)
}

// FileSum is the size and the SHA-256, 64 digits, of the archive that was written,
// once the destination is committed. Of volumes [Destination.Volumes] tells.
func (d *Destination) FileSum(ctx context.Context) (int64, string, error) {
	if t, ok := d.target.(*archiveTarget); ok {
		return t.sum.wait(ctx, t.path)
	}
	return hashFile(ctx, d.Location.Path)
}

// hashFile reads a file for its size and SHA-256.
func hashFile(ctx context.Context, path string) (int64, string, error) {
	f, size, err := openRegular(filepath.Clean(path))
	if err != nil {
		return 0, "", err
	}
	defer f.Close() // it was only read from
	sum := digest.SHA256.Digester()
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum.Hash()}, tellingReader{ctx, f, func(int) {}}, make([]byte, 256<<10)); err != nil {
		return 0, "", files.PlainError(err)
	}
	return size, sum.Digest().Encoded(), nil
}
