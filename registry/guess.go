package registry

import (
	"errors"
	"os"
	"strings"

	"waybill/internal/ref"
)

// otherSchemes are the ways other tools name places, with ours.
var otherSchemes = []struct{ name, ours string }{
	{"docker", schemeRegistry}, {"https", schemeRegistry}, {"http", schemeRegistry}, {"registry", schemeRegistry}, {"oci", schemeRegistry},
	{"oci-layout", schemeLayout}, {"ocidir", schemeLayout}, {"oci-dir", schemeLayout}, {"dir", schemeLayout}, {"layout", schemeLayout},
	{"oci-archive", schemeArchive}, {"oci-tar", schemeArchive}, {"docker-archive", schemeArchive}, {"archive", schemeArchive}, {"tar", schemeArchive},
	{"file", "./"},
}

// isScheme says whether a word before a colon is one of these, or nearly.
func isScheme(word string) bool { return nearestScheme(word) != "" }

// nearestScheme gives our word for a scheme that is known or at most two slips
// of the finger away from a known one.
func nearestScheme(word string) string {
	word = strings.ToLower(strings.ReplaceAll(word, "_", "-"))
	best, bestDistance := "", 3
	for _, s := range otherSchemes {
		d := distance(word, s.name)
		if d < bestDistance && d < len(s.name)/2 || d == 0 {
			best, bestDistance = s.ours, d
		}
	}
	return best
}

// unknownLocation explains a word that is no location.
func unknownLocation(s string) *LocationError {
	if scheme := nextScheme.FindString(s); scheme != "" && !drivePath.MatchString(s) {
		if e := unknownScheme(s, strings.TrimSuffix(scheme, ":"), s[len(scheme):]); e != nil {
			return e
		}
	}
	if meant := meantHost(s); meant != "" {
		return &LocationError{Input: s, Reason: "is neither a registry location nor something that exists", Meant: meant}
	}
	if strings.ContainsAny(s, ":@") {
		return &LocationError{Input: s, Reason: "is neither a registry location, which names its host, nor something that exists", Meant: schemeRegistry + "HOST/" + s}
	}
	return &LocationError{Input: s, Reason: "does not exist; a new place is written as a path or with its kind", Meant: "./" + s}
}

func unknownScheme(s, scheme, rest string) *LocationError {
	ours := nearestScheme(scheme)
	if ours == "" {
		if strings.HasPrefix(rest, "//") {
			return &LocationError{Input: redact(s), Reason: "begins with " + scheme + "://, which is not known", Meant: schemeRegistry + withoutUser(strings.TrimLeft(rest, "/"))}
		}
		return nil // HOST:PORT/PATH
	}
	slashless := strings.TrimLeft(rest, "/")
	switch {
	case ours == schemeRegistry && scheme == "oci" && isDirectory(cutTag(rest)):
		// skopeo's oci:PATH:TAG is a layout.
		return &LocationError{Input: s, Reason: "has no kind that is known", Meant: schemeLayout + tagAsName(rest)}
	case ours == schemeRegistry:
		return &LocationError{Input: redact(s), Reason: "has no kind that is known", Meant: schemeRegistry + strings.TrimRight(withoutUser(slashless), "/")}
	case ours == "./":
		return &LocationError{Input: s, Reason: "is a URL of a file", Meant: strings.TrimPrefix(rest, "//")}
	}
	return &LocationError{Input: s, Reason: "has no kind that is known", Meant: ours + tagAsName(strings.TrimPrefix(rest, "//"))}
}

// meantHost recognises HOST/PATH without its scheme.
func meantHost(s string) string {
	r, err := ref.Parse(s)
	if err != nil || !strings.ContainsAny(r.Host, ".:") && r.Host != "localhost" {
		return ""
	}
	return schemeRegistry + s
}

// meantRegistry is the nearest registry location that can be read.
func meantRegistry(rest string) string {
	host, path, _ := strings.Cut(strings.TrimRight(rest, "/"), "/")
	if path == "" {
		return schemeRegistry + strings.TrimRight(host, "/") + "/PATH:TAG"
	}
	path, name, named := strings.Cut(path, "#")
	repository, tag, tagged := strings.Cut(path, ":")
	guess := host + "/" + strings.ToLower(repository)
	switch {
	case tagged:
		guess += ":" + strings.ReplaceAll(tag, "+", "_")
	case named:
		guess += ":" + strings.ReplaceAll(name, "+", "_")
	}
	if _, err := ref.Parse(guess); err != nil || guess == rest {
		return ""
	}
	return schemeRegistry + guess
}

func tagAsName(s string) string {
	if path := cutTag(s); path != s && path != "" {
		return path + "#" + s[len(path)+1:]
	}
	return s
}

func cutTag(s string) string {
	if at := strings.LastIndexByte(s, ':'); at > 1 && !strings.Contains(s[at:], "/") && !strings.Contains(s, "@") {
		return s[:at]
	}
	return s
}

// redact hides what a URL has before its host.
func redact(s string) string {
	scheme, rest, ok := strings.Cut(s, "//")
	host, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); ok && at >= 0 {
		return strings.TrimRight(scheme+"//…"+host[at:]+"/"+path, "/")
	}
	return s
}

func withoutUser(s string) string {
	host, _, _ := strings.Cut(s, "/")
	return s[strings.LastIndexByte(host, '@')+1:]
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// reasonOf is the innermost sentence of an error from package ref, which
// repeats the input that is quoted already.
func reasonOf(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		return inner.Error()
	}
	_, reason, ok := strings.Cut(err.Error(), "\": ")
	if !ok {
		return err.Error()
	}
	return reason
}

// distance is the number of letters to add, drop or change between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
