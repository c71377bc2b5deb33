//go:build !unix && !windows

package registry

import "os"

// lockHandle has no locks to take where files have none.
func lockHandle(*os.File) error { return nil }
