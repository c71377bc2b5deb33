package bundle

import (
	"regexp"
	"strings"
)

// loginIn says what of a login an address holds, "" for nothing. Addresses of a
// release file go into every bundle made from it, and a bundle is given away.
// The user of ssh://git@HOST and git@HOST:PATH is part of the address.
func loginIn(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return ""
	}
	// Not url.Parse: what it refuses (a % in a password) holds a login all the same.
	authority, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@')
	user := authority[:max(at, 0)]
	switch {
	case strings.Contains(user, ":"):
		return "a password"
	case at >= 0 && scheme != "ssh" && scheme != "git+ssh":
		return "a user name or token"
	}
	if strings.Contains(rest, "?") {
		return "a query, where tokens stand"
	}
	return ""
}

// withoutLogin is an address to show: what stands before its host is left out.
func withoutLogin(text string) string {
	return loginPart.ReplaceAllString(text, "$1…@")
}

var loginPart = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/\s]*@`)
