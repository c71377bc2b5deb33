package credentials

import "fmt"

// An Error reports a credentials file or helper that does not work. Going on
// without a login would hide it.
type Error struct {
	Host   string
	Source string // the file, or the helper program and the file that names it
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("credentials for %s from %s: %v", e.Host, e.Source, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
