package signing_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cuelabs.dev/go/oci/ociregistry/ociserver"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"oras.land/oras-go/v2/registry/remote"

	"waybill/signing"
)

// A cosignCLI is a cosign of some version, with no way to the internet.
type cosignCLI struct {
	path, dir string
	sign      []string // flags that make it sign with a key and nothing else
}

// cosigns are the programs named by the environment: WAYBILL_COSIGN is a
// cosign 2.6 (go build github.com/sigstore/cosign/v2/cmd/cosign),
// WAYBILL_COSIGN3 a cosign 3.1.
func cosigns(t *testing.T) map[string]cosignCLI {
	t.Helper()
	out := map[string]cosignCLI{}
	if path := os.Getenv("WAYBILL_COSIGN"); path != "" {
		out["2.6"] = cosignCLI{path: path, sign: []string{"--tlog-upload=false"}}
	}
	if path := os.Getenv("WAYBILL_COSIGN3"); path != "" {
		out["3.1"] = cosignCLI{path: path, sign: []string{"--tlog-upload=false", "--use-signing-config=false"}}
	}
	if len(out) == 0 {
		t.Skip("WAYBILL_COSIGN and WAYBILL_COSIGN3 name no cosign")
	}
	for version, c := range out {
		c.dir = t.TempDir()
		out[version] = c
	}
	return out
}

// run runs cosign; HTTPS goes to a port where nobody listens.
func (c cosignCLI) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.path, args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"HOME=" + c.dir, "PATH=" + os.Getenv("PATH"), "COSIGN_PASSWORD=" + testPassword, "HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c cosignCLI) must(t *testing.T, args ...string) {
	t.Helper()
	if out, err := c.run(t, args...); err != nil {
		t.Fatalf("cosign %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// keyPair makes keys with cosign and loads them.
func (c cosignCLI) keyPair(t *testing.T, name string) (*signing.Signer, signing.Key) {
	t.Helper()
	c.must(t, "generate-key-pair", "--output-key-prefix", name)
	signer, err := signing.LoadSigner(t.Context(), filepath.Join(c.dir, name+".key"), password(testPassword))
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.LoadKey(t.Context(), filepath.Join(c.dir, name+".pub"))
	if err != nil {
		t.Fatal(err)
	}
	return signer, key
}

func nameOf(repo *remote.Repository, desc ocispec.Descriptor) string {
	return repo.Reference.Host() + "/" + repo.Reference.Repository + "@" + desc.Digest.String()
}

func registries(t *testing.T) map[string]*remote.Repository {
	return map[string]*remote.Repository{
		"referrers API":    newRegistry(t, nil),
		"no referrers API": newRegistry(t, &ociserver.Options{DisableReferrersAPI: true}),
	}
}

// cosign accepts what we sign in the tag form, without a network, and refuses
// it for another key
func TestCosignAcceptsOurTagForm(t *testing.T) {
	for version, c := range cosigns(t) {
		ours, _ := c.keyPair(t, "ours")
		c.keyPair(t, "other")
		for kind, repo := range registries(t) {
			t.Run(version+" "+kind, func(t *testing.T) {
				desc := pushImage(t, repo, "one")
				sign(t, ours, repo, desc, signing.FormatTag)
				c.must(t, "verify", "--key", "ours.pub", "--insecure-ignore-tlog=true", nameOf(repo, desc))
				if out, err := c.run(t, "verify", "--key", "other.pub", "--insecure-ignore-tlog=true", nameOf(repo, desc)); err == nil {
					t.Errorf("the other key was accepted: %s", out)
				}
			})
		}
	}
}

// cosign accepts our sigstore bundle; 2.6 reads none without a trusted root,
// of which it uses nothing
func TestCosignAcceptsOurReferrer(t *testing.T) {
	vs, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	material := trustedRoot(t, vs.FulcioCertificateAuthorities(), vs.TimestampingAuthorities(), logs(t, vs), nil)
	for version, c := range cosigns(t) {
		ours, _ := c.keyPair(t, "ours")
		c.keyPair(t, "other")
		if err := os.WriteFile(filepath.Join(c.dir, "trusted_root.json"), material, 0o600); err != nil {
			t.Fatal(err)
		}
		for kind, repo := range registries(t) {
			t.Run(version+" "+kind, func(t *testing.T) {
				desc := pushImage(t, repo, "one")
				sign(t, ours, repo, desc, signing.FormatReferrer)
				verify := []string{"verify", "--new-bundle-format", "--trusted-root", "trusted_root.json", "--insecure-ignore-tlog=true", nameOf(repo, desc), "--key"}
				c.must(t, append(verify, "ours.pub")...)
				if out, err := c.run(t, append(verify, "other.pub")...); err == nil {
					t.Errorf("the other key was accepted: %s", out)
				}
			})
		}
	}
}

// we accept what cosign signs in both forms, refuse it for another key, and
// add to it without a loss
func TestWeAcceptCosigns(t *testing.T) {
	for version, c := range cosigns(t) {
		_, theirs := c.keyPair(t, "theirs")
		ours, _ := c.keyPair(t, "ours")
		for form, newFormat := range map[string]string{"tag": "--new-bundle-format=false", "referrer": "--new-bundle-format=true"} {
			for kind, repo := range registries(t) {
				t.Run(strings.Join([]string{version, form, kind}, " "), func(t *testing.T) {
					desc := pushImage(t, repo, "one")
					args := append([]string{"sign", "--yes", "--key", "theirs.key", newFormat}, c.sign...)
					c.must(t, append(args, nameOf(repo, desc))...)
					found, err := signing.Signers(t.Context(), repo, desc)
					if err != nil || len(found) != 1 || found[0].Form != form {
						t.Fatalf("found %+v, %v", found, err)
					}
					_, err = signing.Verify(t.Context(), repo, desc, keysOf(ours))
					wantRefused(t, err, "made by none")
					sign(t, ours, repo, desc, signing.FormatBoth)
					policy := keysOf(ours)
					policy.Keys, policy.Threshold = append(policy.Keys, theirs), 2
					if _, err := signing.Verify(t.Context(), repo, desc, policy); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}
