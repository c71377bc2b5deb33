//go:build !linux && !darwin && !windows

package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

func isFAT(string) bool { return false }

func free(string) (int64, bool) { return 0, false }

func reserve(_ context.Context, f *os.File, size int64) error { return truncate(f, size) }

func past(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func isNotPast(error) bool { return false }

func openPast(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

func isCached(*os.File, int64, int64) bool { return false }

func stateOf(info fs.FileInfo) State { return State{Changed: info.ModTime()} }
