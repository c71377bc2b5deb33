//go:build !unix && !windows

package disk

import "io/fs"

func isFull(error) bool { return false }

func isTooLarge(error) bool { return false }

func taken(fs.FileInfo) int64 { return 0 }
