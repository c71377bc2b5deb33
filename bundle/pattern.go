package bundle

import "fmt"

// patternWords says what a pattern of the schemas stands for. A test keeps the
// list complete.
func patternWords(pattern string) string {
	switch pattern {
	case `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`:
		return "a DNS label: lower case letters, digits and '-', a letter or digit at both ends"
	case `^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`, `^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`:
		return "a DNS name: lower case letters, digits, '-' and '.', a letter or digit at both ends"
	case `^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)([.](0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?([+][0-9a-zA-Z-]+([.][0-9a-zA-Z-]+)*)?$`:
		return "a semantic version such as 1.2.3, without a leading v"
	case `^[a-z0-9]+/[a-z0-9]+(/[a-z0-9.]+)?$`:
		return "a platform such as linux/amd64"
	case `^oci://.+@sha256:[0-9a-f]{64}$`:
		return "a location in a registry with a digest: oci://HOST/PATH@sha256:…"
	case `^v?[0-9]+[.][0-9]+([.][0-9]+)?$`:
		return "a Kubernetes version such as 1.34.0"
	case `^(https?|oci)://.`:
		return "a chart repository (https://…) or a registry (oci://…)"
	case `^([0-9]{1,6}([.][0-9]{1,9})?(ms|s|m|h)){1,4}$`:
		return "a time span such as 10m or 1h30m"
	case `^sha256:[0-9a-f]{64}$`:
		return "a digest: sha256: and 64 hexadecimal digits"
	case `^[-._a-zA-Z0-9]+$`:
		return "a key of a Secret or ConfigMap"
	case `^(relocate|keep|expand:.+)$`:
		return "relocate, keep or expand:PREFIX"
	}
	return fmt.Sprintf("of the form %s", pattern)
}
