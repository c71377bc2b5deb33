package registry

import (
	"context"
	"io"
	"os"
	"runtime"

	"github.com/opencontainers/go-digest"
)

// A tarSum is the SHA-256 of a tar that is written, computed while its bytes go to
// the disk: reading them again then costs no time of its own.
type tarSum struct {
	size int64
	done chan struct{} // nil: not begun
	sum  string
	err  error
}

// begin reads the file from now on. All but the mark at its end must be in it.
func (s *tarSum) begin(ctx context.Context, plan *tarPlan, file *os.File) {
	s.size = plan.tar.Size()
	if runtime.GOOS == "windows" { // which renames nothing that is open
		return
	}
	f, err := os.Open(file.Name())
	if err != nil {
		return // it will be read when somebody asks
	}
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		defer f.Close() // it was only read from
		h := digest.SHA256.Digester()
		content := tellingReader{ctx, io.NewSectionReader(f, 0, plan.tar.Trailer()), func(int) {}}
		_, s.err = io.CopyBuffer(struct{ io.Writer }{h.Hash()}, content, make([]byte, 256<<10))
		_, _ = h.Hash().Write(make([]byte, tarEnd)) // hashes don't fail
		s.sum = h.Digest().Encoded()
	}()
}

// wait gives the size and the sum of the file at path.
func (s *tarSum) wait(ctx context.Context, path string) (int64, string, error) {
	if s.done != nil {
		<-s.done
		if s.err == nil {
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
