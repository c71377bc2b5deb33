package flags

import (
	"time"

	"github.com/urfave/cli/v2"
)

// The groups of flags. Each call makes new flags, since the library keeps
// parsed state in them.

// Common returns the flags of every command: the form of the output and how
// much is said beside it.
func Common() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "text", Usage: "form of the result: text or json"},
		&cli.BoolFlag{Name: "quiet", Usage: "say nothing but results and errors"},
		&cli.BoolFlag{Name: "debug", Usage: "say every request to a registry; secrets are masked"},
	}
}

// Registry returns the flags that say how registries are reached.
func Registry() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "ca-file", Usage: "PEM `FILE` of certificate authorities to trust besides the system's (repeatable)"},
		&cli.StringFlag{Name: "cert-file", Usage: "PEM `FILE` with the TLS client certificate"},
		&cli.StringFlag{Name: "key-file", Usage: "PEM `FILE` with the TLS client key"},
		&cli.BoolFlag{Name: "plain-http", Usage: "speak plain HTTP to the hosts named in this command"},
		&cli.BoolFlag{Name: "insecure-skip-tls-verify", Usage: "do not check the certificates of the hosts named in this command"},
		&cli.StringSliceFlag{Name: "plain-http-host", Usage: "speak plain HTTP to `HOST` (repeatable)"},
		&cli.StringSliceFlag{Name: "insecure-host", Usage: "do not check the certificate of `HOST` (repeatable)"},
		&cli.StringSliceFlag{Name: "tls-host", Usage: "speak TLS to `HOST` although it is a loopback host (repeatable)"},
		&cli.StringFlag{Name: "registry-config", Usage: "credentials `FILE` in Docker's form, instead of Docker's and Helm's own"},
		&cli.StringSliceFlag{Name: "registry-override", Usage: "read `UPSTREAM=CACHE`: what is named at one host or HOST/PATH from another, registry or chart repository (repeatable)"},
		&cli.IntFlag{Name: "concurrency", Value: 8, Usage: "how many transfers run at the same time"},
		&cli.IntFlag{Name: "retry", Value: 5, Usage: "how often a request that may succeed later is made again"},
		&cli.DurationFlag{Name: "max-retry-wait", Value: 2 * time.Minute, Usage: "the longest pause before that, also when a host asks for more"},
		&cli.DurationFlag{Name: "idle-timeout", Value: time.Minute, Usage: "give a transfer up that makes no progress for so long"},
		&cli.StringFlag{Name: "chunk-size", Usage: "upload larger blobs in chunks of this `SIZE`; without it, those over 16M in chunks as the registry takes them best"},
	}
}

// Policy returns the flags that say whose signatures are accepted.
func Policy() []cli.Flag {
	return Join([]cli.Flag{
		&cli.StringSliceFlag{Name: "key", Usage: "public `KEY` that may have signed: file, env://VAR, KMS URI or k8s://NS/NAME (repeatable; any one suffices)"},
	}, PolicyWithoutKey())
}

// PolicyWithoutKey returns the flags of [Policy] for a command whose --key is a
// private key.
func PolicyWithoutKey() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "certificate-identity", Usage: "`IDENTITY` in the signer's certificate"},
		&cli.StringFlag{Name: "certificate-identity-regexp", Usage: "regular `EXPRESSION` that matches the whole identity in the signer's certificate"},
		&cli.StringFlag{Name: "certificate-oidc-issuer", Usage: "`ISSUER` in the signer's certificate"},
		&cli.StringFlag{Name: "trusted-root", Usage: "`FILE` with sigstore trust material"},
		&cli.BoolFlag{Name: "require-log", Usage: "accept only signatures with a transparency log entry"},
		&cli.BoolFlag{Name: "require-timestamp", Usage: "accept only signatures with a signed timestamp"},
		&cli.IntFlag{Name: "threshold", Value: 1, Usage: "how many different signers are needed"},
		&cli.BoolFlag{Name: "allow-unsigned", Usage: "let a bundle with no signature at all pass; recorded"},
		&cli.StringFlag{Name: "policy", Usage: "policy `FILE`, or none: verify nothing; recorded"},
	}
}

// Cluster returns the flags that say which cluster is meant, found as kubectl
// and helm find it, and where its records are.
func Cluster() []cli.Flag { return clusterFlags("waybill-system") }

// ClusterOfSite returns the flags of [Cluster] for a command that takes a site
// file, which may say where the records are.
func ClusterOfSite() []cli.Flag { return clusterFlags("the site file's, else waybill-system") }

func clusterFlags(stateNamespace string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "kubeconfig", Usage: "kubeconfig `FILE`, instead of KUBECONFIG or the usual place"},
		&cli.StringFlag{Name: "context", Aliases: []string{"kube-context"}, Usage: "`NAME` of the kubeconfig context"},
		&cli.StringFlag{Name: "state-namespace", Usage: "`NAMESPACE` of the records (default: " + stateNamespace + ")"},
	}
}

// Join makes one list of several groups.
func Join(groups ...[]cli.Flag) []cli.Flag {
	var all []cli.Flag
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}
