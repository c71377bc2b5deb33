package images

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/distribution/reference"
)

// leaf looks at one text under a key and reports whether it reads as a
// reference at all.
func (f *Finder) leaf(text, key, path string) bool {
	text = strings.TrimSpace(text)
	form := readForm(text)
	if form == noReference {
		return false
	}
	names := namesImage(key)
	switch {
	case f.place.kind == inValues, f.place.kind == inSchema:
		if names && form >= bareName || form >= versioned {
			f.add(text, Candidate, path, f.where())
		}
	case names && form >= shortTagged:
		f.add(text, Recognised, path, f.where()+", under a key that says image")
	case names && form >= pathOnly, form >= versioned && f.place.kind != inPod:
		f.add(text, Candidate, path, f.where())
	case form == hosted && f.place.kind == inPod && !namesArtifact(key):
		f.add(text, Recognised, path, f.where()+", a whole reference with host and tag")
	case form >= versioned:
		f.add(text, Candidate, path, f.where())
	default:
		return false
	}
	return true
}

func (f *Finder) where() string {
	return map[placeKind]string{
		inObject: "text of an object", inResource: "field of a custom resource", inConfig: "text of a ConfigMap or Secret",
		inPod: "argument or environment of a container", inSchema: "default of a custom resource definition",
		inValues: "the chart's values",
	}[f.place.kind]
}

// A form is how much a text looks like an image reference.
type form int

const (
	noReference form = iota
	bareName         // busybox
	pathOnly         // library/busybox, ghcr.io/org/app
	shortTagged      // redis:alpine, which may be a host and something else too
	versioned        // redis:7.2, org/app:v1: the tag reads as a version
	hosted           // ghcr.io/org/app:v1, or with a digest
)

// maxReference bounds what is read as a reference.
const maxReference = 512

var (
	versionTag = regexp.MustCompile(`^(v?[0-9]+([._-][0-9A-Za-z]+)+|v[0-9]+|latest|stable|main|master|nightly|edge)$`)
	portTag    = regexp.MustCompile(`^[0-9]{1,5}$`)
	hostLike   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+(:[0-9]+)?$`)
)

// readForm reads text as a reference.
func readForm(text string) form {
	if text == "" || len(text) > maxReference || strings.ContainsAny(text, " \t\n\"'{}$*") || strings.HasPrefix(text, "sha256:") {
		return noReference
	}
	named, err := reference.ParseDockerRef(text)
	if err != nil {
		return noReference
	}
	parsed, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return noReference
	}
	host, rest, slash := strings.Cut(text, "/")
	withHost := slash && rest != "" && (hostLike.MatchString(host) || strings.HasPrefix(host, "localhost"))
	if _, ok := named.(reference.Digested); ok {
		return hosted
	}
	tagged, ok := parsed.(reference.Tagged)
	switch {
	case !ok && slash:
		return pathOnly
	case !ok:
		return bareName
	case withHost && !strings.HasSuffix(host, ".svc"):
		return hosted
	case slash:
		return versioned
	case portTag.MatchString(tagged.Tag()):
		return bareName // name:80 is a host and its port
	case versionTag.MatchString(tagged.Tag()) && !hostLike.MatchString(strings.SplitN(text, ":", 2)[0]):
		return versioned
	}
	return shortTagged
}

// keyWords splits a key, a flag or a variable's name into its words.
func keyWords(key string) []string {
	var words []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			words = append(words, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	runes := []rune(key)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]) && unicode.IsUpper(runes[i-1])):
			flush()
		}
		word.WriteRune(r)
	}
	flush()
	return words
}

// What may stand after "image" in a key that still names a whole image.
var afterImage = map[string]bool{"name": true, "ref": true, "reference": true, "url": true, "uri": true, "spec": true, "full": true, "default": true, "override": true}

// namesImage is whether a key says that its text is an image: image,
// natsImage, --worker-image, RELATED_IMAGE_WEBHOOK.
func namesImage(key string) bool {
	words := keyWords(key)
	for i, word := range words {
		if word != "image" && word != "images" {
			continue
		}
		if i > 0 && words[i-1] == "related" {
			return true
		}
		rest := words[i+1:]
		for len(rest) > 0 && afterImage[rest[0]] {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return true
		}
	}
	return false
}

// namesArtifact is whether a key says that its text is something in a registry
// that no container runs.
func namesArtifact(key string) bool {
	for _, word := range keyWords(key) {
		switch word {
		case "repository", "repositories", "artifact", "artifacts", "chart", "charts", "oci", "db", "bundle", "policy", "policies", "rules", "rulesfile", "plugin", "plugins", "module", "wasm", "package":
			return true
		}
	}
	return false
}

// A pair is a word of a text with the key it was assigned to.
type pair struct{ key, value string }

var (
	assignment = regexp.MustCompile(`^\s*"?([A-Za-z0-9_.-]+)"?\s*[:=]\s*"?([^\s"',]+)"?,?\s*$`)
	wordName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
)

func isWord(s string) bool { return wordName.MatchString(s) }

// words cuts a text that is no structure, such as a shell's or a template's,
// into words. A word keeps the key of its line (image: X) or flag (--image=X).
func words(text string) []pair {
	var pairs []pair
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "- ")
		if m := assignment.FindStringSubmatch(line); m != nil && !strings.HasPrefix(m[1], "-") {
			pairs = append(pairs, pair{m[1], m[2]})
			continue
		}
		flag := ""
		for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`,;()|&<>\\", r) }) {
			key, value, assigned := strings.Cut(word, "=")
			switch {
			case assigned:
				pairs, flag = append(pairs, pair{key, value}), key
				if value != "" {
					flag = ""
				}
			case strings.HasPrefix(word, "-"):
				flag = word
			default:
				pairs, flag = append(pairs, pair{flag, word}), ""
			}
		}
	}
	return pairs
}
