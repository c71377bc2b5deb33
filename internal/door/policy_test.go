package door

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"waybill/bundle"
	"waybill/signing"
)

// The first policy found counts, and its source is named.
func TestLoadPolicy(t *testing.T) {
	dir := t.TempDir()
	writeKey(t, filepath.Join(dir, "vendor.pub"))
	writeFile(t, filepath.Join(dir, "policy.yaml"), "apiVersion: waybill/v1\nkind: Policy\nkeys: [vendor.pub]\n")
	file, absent := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "absent.yaml")
	key := bundle.VerifyBlock{Keys: []string{filepath.Join(dir, "vendor.pub")}}
	site := &bundle.VerifyBlock{Keys: []string{"vendor.pub"}}
	siteFile := filepath.Join(dir, "site.yaml")

	tests := map[string]struct {
		choice PolicyChoice
		source string // empty: no policy
		keys   int
		off    bool
		allow  bool
	}{
		"nothing":                       {choice: PolicyChoice{Known: []string{absent}}},
		"flags":                         {choice: PolicyChoice{Flags: key, Site: site, SiteFile: siteFile, Known: []string{file}}, source: "flags", keys: 1},
		"--policy before the site":      {choice: PolicyChoice{File: file, Site: site, SiteFile: siteFile}, source: file, keys: 1},
		"the site file, keys beside it": {choice: PolicyChoice{Site: site, SiteFile: siteFile, Known: []string{file}}, source: "site file " + siteFile, keys: 1},
		"the first known place":         {choice: PolicyChoice{Known: []string{absent, file}}, source: file, keys: 1},
		"none":                          {choice: PolicyChoice{File: "none", Known: []string{file}}, source: "--policy none", off: true},
		"allowed unsigned alone":        {choice: PolicyChoice{Flags: bundle.VerifyBlock{AllowUnsigned: true}}, source: "--allow-unsigned", allow: true},
		"a flag changes what is found":  {choice: PolicyChoice{Flags: bundle.VerifyBlock{AllowUnsigned: true}, Known: []string{file}}, source: file + " with flags", keys: 1, allow: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			policy, err := LoadPolicy(context.Background(), tt.choice)
			if err != nil {
				t.Fatal(err)
			}
			if policy == nil {
				policy = &signing.Policy{}
			}
			if policy.Source != tt.source || len(policy.Keys) != tt.keys || policy.Off != tt.off || policy.AllowUnsigned != tt.allow {
				t.Errorf("got %+v", policy)
			}
		})
	}
}

// An option that cannot be honoured is an error, never passed over.
func TestLoadPolicyRefuses(t *testing.T) {
	dir := t.TempDir()
	writeKey(t, filepath.Join(dir, "vendor.pub"))
	key := bundle.VerifyBlock{Keys: []string{filepath.Join(dir, "vendor.pub")}}
	many := key
	many.Threshold = 2
	tests := map[string]PolicyChoice{
		"key and --policy":                 {Flags: key, File: "policy.yaml"},
		"key and --policy none":            {Flags: key, File: "none"},
		"--policy none and a requirement":  {Flags: bundle.VerifyBlock{RequireLog: true}, File: "none"},
		"a requirement and nobody named":   {Flags: bundle.VerifyBlock{RequireTimestamp: true}},
		"a threshold and nobody named":     {Flags: bundle.VerifyBlock{Threshold: 2}},
		"a threshold nobody can reach":     {Flags: many},
		"a policy file that is not there":  {File: filepath.Join(dir, "absent.yaml")},
		"a key that is not there":          {Flags: bundle.VerifyBlock{Keys: []string{filepath.Join(dir, "absent.pub")}}},
		"a site file's key is not there":   {Site: &bundle.VerifyBlock{Keys: []string{"absent.pub"}}, SiteFile: filepath.Join(dir, "site.yaml")},
		"a trusted root that is not there": {Flags: bundle.VerifyBlock{Identities: []bundle.Identity{{Issuer: "i", Subject: "s"}}, TrustedRoot: "absent.json"}},
	}
	for name, choice := range tests {
		t.Run(name, func(t *testing.T) {
			policy, err := LoadPolicy(context.Background(), choice)
			var refused *PolicyError
			if !errors.As(err, &refused) {
				t.Errorf("got %+v, %v, want a policy error", policy, err)
			}
		})
	}
}

func writeKey(t *testing.T, path string) {
	t.Helper()
	_, public, err := signing.GenerateKeyPair(nil)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, string(public))
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
