//go:build !linux

package disk

import (
	"os"
	"testing"
)

func forget(*testing.T, *os.File, int64) {}
