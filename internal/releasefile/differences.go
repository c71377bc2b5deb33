package releasefile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
	"waybill/internal/files"
)

// Differences says what of the release file, and of the lock and the values files
// that lie beside it, is not what the bundle made from it holds. What does not lie
// there is not missed: the bundle has it.
func (f *File) Differences(b *bundle.Bundle) ([]string, error) {
	differences := f.Release.Differences(b.Release)
	_, lock, err := f.ReadLock()
	if err != nil {
		return nil, err
	}
	if lock != nil && !bytes.Equal(lock, b.LockFile) {
		differences = append(differences, fmt.Sprintf("the lock %s is %s, the bundle's is %s", f.LockPath(), digest.FromBytes(lock), digest.FromBytes(b.LockFile)))
	}
	for _, name := range f.Release.ValuesFilePaths() {
		data, err := files.Read(f.Beside(name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !bytes.Equal(data, b.ValuesFiles[name]):
			differences = append(differences, fmt.Sprintf("values file %q", name))
		}
	}
	return differences, nil
}
