package images

import (
	"slices"
	"strings"
	"unicode"
)

// keyWords splits a key, a flag or a variable's name into its words.
func keyWords(key string) []string {
	var words []string
	var word strings.Builder
	flush := func() {
		if word.Len() == 0 {
			return
		}
		text := strings.ToLower(word.String())
		word.Reset()
		if before, ok := strings.CutSuffix(text, "image"); ok && before != "" {
			words, text = append(words, before), "image" // baseimage
		}
		words = append(words, text)
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
var afterImage = wordSet("name ref reference url uri spec full default override")

// What stands after "image" in a key that says something about an image.
var aboutImage = wordSet("pull policy secret secrets tag tags version versions registry registries repository repositories repo prefix suffix " +
	"digest sha sha256 hash arch type size format id scan scanner scanning gc cache cleanup cleaner credential credentials path dir directory " +
	"mode os swap swapper updater automation promotion signature signing verify verification policies source sources stream streams content " +
	"service host port endpoint api server lookup limit threshold timeout interval max min count collection builder build builds " +
	"references patterns pattern globs label labels annotation annotations selector filter")

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

func isImageWord(word string) bool { return word == "image" || word == "images" || word == "img" }

// What says of images that they are let in or kept out, not run.
var judgedImages = wordSet("allowed allow allowlist whitelist exempt exempted excluded exclude ignored ignore trusted blocked block denied deny " +
	"forbidden disallowed denylist blacklist deprecated unsupported matching verify")

// namesImage is whether a key says that its text is an image: image,
// natsImage, --worker-image, RELATED_IMAGE_WEBHOOK.
func namesImage(key string) bool {
	words := keyWords(key)
	if slices.ContainsFunc(words, func(word string) bool { return judgedImages[word] }) {
		return false
	}
	for i, word := range words {
		if !isImageWord(word) {
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

// mayNameImage is whether a key says image and goes on with what is none of an
// image's properties: IMAGE_AGENT, shell-image-win. Its text is an image when
// it reads as one beyond doubt.
func mayNameImage(key string) bool {
	words := keyWords(key)
	at := slices.IndexFunc(words, isImageWord)
	if slices.ContainsFunc(words, func(word string) bool { return judgedImages[word] }) {
		return false
	}
	return at >= 0 && !slices.ContainsFunc(words[at+1:], func(word string) bool { return aboutImage[word] })
}

// saysImage is whether a key has the word, whatever it says of images.
func saysImage(key string) bool { return slices.ContainsFunc(keyWords(key), isImageWord) }

var artifactWords = wordSet("repository repositories artifact artifacts chart charts oci oras helm db bundle bundles policy policies rules " +
	"rulesfile rulesfiles plugin plugins module modules wasm package packages provider providers schema schemas crds sbom signature model models " +
	"url uri location endpoint endpoints address allowed allow allowlist whitelist exempt exempted excluded exclude ignored ignore trusted " +
	"blocked block denied deny forbidden disallowed denylist blacklist")

// namesArtifact is whether a key says that its text is something in a registry
// that no container runs.
func namesArtifact(key string) bool {
	return slices.ContainsFunc(keyWords(key), func(word string) bool { return artifactWords[word] })
}

var sourceWords = wordSet("git github gitlab gitea bitbucket source sources src branch backup backups snapshot snapshots")

// namesSource is whether a key says that a repository is none of images.
func namesSource(key string) bool {
	return slices.ContainsFunc(keyWords(key), func(word string) bool { return sourceWords[word] })
}

// Words that stand for a choice, under whatever key, and are no image.
var choices = wordSet("debug info warn warning error trace fatal verbose true false yes no on off auto none null nil default defaults all any " +
	"always never ifnotpresent enabled disabled enable disable latest stable custom internal external image images container docker podman " +
	"containerd oci png jpg jpeg svg gif webp local remote name tag version string text unknown undefined required optional example")

// isChoice is whether a name without path and tag is a word or number rather
// than an image of Docker Hub's own.
func isChoice(name string) bool {
	name = strings.ToLower(name)
	return choices[name] || !strings.ContainsFunc(name, unicode.IsLetter)
}

// Keys of texts for people.
var proseKeys = wordSet("description message summary expr query documentation title help text runbook note notes comment pattern regex license " +
	"expression rule condition example examples")

// isProse is whether a key says that its text is for people, or an expression.
func isProse(key string) bool {
	words := keyWords(key)
	return len(words) > 0 && proseKeys[words[len(words)-1]]
}
