//go:build !unix && !windows

package beside

import "os"

// Lock has no locks to take where files have none.
func Lock(*os.File) error { return nil }
