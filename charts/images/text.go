package images

import (
	"regexp"
	"strings"

	"github.com/distribution/reference"
)

// leaf looks at one text under a key and reports whether it reads as a
// reference at all.
func (f *Finder) leaf(text, key, path string) bool {
	text = strings.TrimSpace(text)
	sure, reason := f.judge(text, key)
	if sure == "" {
		return false
	}
	if reason != "" {
		reason = ", " + reason
	}
	f.add(text, sure, path, f.where()+reason)
	return true
}

// judge says how sure it is that a text under a key is an image; the empty
// confidence says that it is none.
func (f *Finder) judge(text, key string) (Confidence, string) {
	form := readForm(text)
	if form == noReference {
		return "", ""
	}
	artifact := namesArtifact(key)
	switch {
	case namesImage(key):
		return f.judgeNamed(text, form)
	case form < versioned, form == versioned && (artifact || isProse(key) && !strings.Contains(text, "/")):
		return "", ""
	case f.place.kind == inValues, f.place.kind == inSchema, f.place.kind == inConfig, f.place.kind == inObject, artifact, f.loose:
	case mayNameImage(key):
		return Recognised, "under a key that says image"
	case form == hosted && f.place.kind == inPod && !f.artifact && isRelease(text):
		return Recognised, "a whole reference with host and tag"
	case form == versioned && !f.artifact && pathWithVersion.MatchString(text):
		return Recognised, "a path with a version"
	case form == hosted && f.place.kind == inResource && isVersion(text) && !saysImage(key):
		return Recognised, "a whole reference with host and version"
	}
	return Candidate, ""
}

// judgeNamed is judge under a key that says image.
func (f *Finder) judgeNamed(text string, form form) (Confidence, string) {
	const reason = "under a key that says image"
	switch {
	case form == bareName && isChoice(text):
		return "", ""
	case f.place.kind == inValues, f.place.kind == inSchema:
		return Candidate, ""
	case f.place.kind == inObject && form < pathOnly:
		return "", ""
	case form == numbered, form >= shortTagged:
		return Recognised, reason
	}
	return Candidate, reason
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
	numbered         // postgres:16, which is a host and its port too
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
	// apps/v1, and what is said of a kind of that group.
	apiVersion      = regexp.MustCompile(`(^|/)v[0-9]+((alpha|beta)[0-9]+)?$`)
	pathWithVersion = regexp.MustCompile(`/[^/:]+:v?[0-9]+\.[0-9]+(\.[0-9]+)?([.+_-][A-Za-z0-9_.-]+)?$`)
	// logo.png, a picture, or the image of a disk.
	fileName = regexp.MustCompile(`\.(png|jpe?g|gif|svg|ico|webp|tar|tgz|gz|xz|zip|ya?ml|json|toml|conf|sh|py|js|css|html?|txt|md|iso|img|qcow2|raw|vmdk|ova|crt|key|pem)$`)
	// ServiceMonitor, NoSchedule: how kinds and effects are written, and no tag.
	camelCase = regexp.MustCompile(`^[A-Z][a-z]+([A-Z][a-z]*)+$`)
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
	if withHost && !mayServeImages(host) {
		return noReference
	}
	tagged, ok := parsed.(reference.Tagged)
	switch {
	case !ok && (fileName.MatchString(text) || !slash && strings.Contains(text, ".")):
		return noReference
	case !ok && slash:
		return pathOnly
	case !ok:
		return bareName
	}
	return tagForm(text, tagged.Tag(), slash, withHost && !strings.HasSuffix(host, ".svc"))
}

// tagForm is the form of a reference with a tag.
func tagForm(text, tag string, slash, withHost bool) form {
	name := strings.TrimSuffix(text, ":"+tag)
	switch {
	case slash && (apiVersion.MatchString(name) || camelCase.MatchString(tag)), tag == "true", tag == "false":
		return noReference
	case withHost:
		return hosted
	case portTag.MatchString(tag) && (!slash || len(tag) > 2):
		return numbered // name:80 is a host and its port, space/name:8080 a service and its port
	case slash:
		return versioned
	case versionTag.MatchString(tag) && !hostLike.MatchString(name) && !labelKeys[name] && len(name) > 1:
		return versioned
	}
	return shortTagged
}

// Keys of labels that are written before a colon too.
var labelKeys = wordSet("app tier version release env environment component role stage track service instance zone")

// mayServeImages is false for hosts whose names stand before a slash in what
// Kubernetes and its tools write, and that serve no images.
func mayServeImages(host string) bool {
	switch {
	case host == "github.com", host == "gitlab.com", host == "bitbucket.org", host == "gopkg.in", host == "golang.org":
		return false
	case strings.HasSuffix(host, ".kubernetes.io"), strings.HasSuffix(host, ".k8s.io"):
		return strings.HasPrefix(host, "registry") || strings.HasPrefix(host, "gcr.")
	}
	return true
}

// isVersion is whether a reference has a digest or a tag that reads as a version.
func isVersion(text string) bool {
	_, tag, ok := strings.Cut(text[strings.LastIndex(text, "/")+1:], ":")
	return ok && (versionTag.MatchString(tag) || portTag.MatchString(tag) || strings.Contains(text, "@"))
}

// isRelease is whether a reference has a digest or a tag that images get and
// labels, which look the same, do not: one with a number, or a usual one.
func isRelease(text string) bool {
	_, tag, _ := strings.Cut(text[strings.LastIndex(text, "/")+1:], ":")
	return strings.ContainsAny(tag, "0123456789") || usualTags[tag]
}

var usualTags = wordSet("latest stable main master nightly edge dev develop devel snapshot canary unstable testing lts alpine debug nonroot")

// A pair is a word of a text with the key it was assigned to.
type pair struct{ key, value string }

var (
	assignment = regexp.MustCompile(`^\s*"?([A-Za-z0-9_.-]+)"?\s*(?:=|:\s|:["'])\s*["']?([^\s"',]+)["']?,?\s*(?:#.*)?$`)
	wordName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
)

func isWord(s string) bool { return wordName.MatchString(s) }

// between are what a word of a text ends at.
const between = " \t\r\n\"'`,;()[]|&<>\\"

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
		for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(between, r) }) {
			key, value, assigned := strings.Cut(word, "=")
			switch {
			case assigned:
				pairs, flag = append(pairs, pair{key, value}), key
				if value != "" {
					flag = ""
				}
			case strings.HasPrefix(word, "-"):
				flag = word
			case strings.HasSuffix(word, ":") && isWord(word[:len(word)-1]):
				flag = word[:len(word)-1]
			default:
				pairs, flag = append(pairs, pair{flag, word}), ""
			}
		}
	}
	return pairs
}
