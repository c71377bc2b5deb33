package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"waybill/internal/registrytest"
)

// signedRelease makes a signed release in the working directory and publishes it.
func signedRelease(t *testing.T, location string) {
	t.Helper()
	workshop(t)
	if code, _, errOut := runBundle(t, "build", "--no-images", "--signing-key", "vendor.key", "--signature-format", "both", "-t", location); code != 0 {
		t.Fatal(errOut)
	}
}

// Where a registry denies to look for signatures, a copy goes on and lists what
// could not be determined; with a policy it does not go on, unless that is
// allowed. A signature that is required and can't be looked for is refused.
func TestCopyUndetermined(t *testing.T) {
	deny := func(*http.Request) bool { return false }
	source := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if deny(r) {
			return &registrytest.Fault{Status: http.StatusForbidden}
		}
		return nil
	}})
	target := registrytest.New(t, registrytest.Options{})
	from := "oci://" + source.Host + "/shop:1.0.0"
	signedRelease(t, from)
	attachments := func(r *http.Request) bool {
		return strings.Contains(r.URL.Path, "/manifests/sha256-") || strings.Contains(r.URL.Path, "/referrers/") || strings.HasSuffix(r.URL.Path, "/tags/list")
	}
	others := func(r *http.Request) bool { return attachments(r) && !strings.HasSuffix(r.URL.Path, ".sig") }
	for name, tt := range map[string]struct {
		deny func(*http.Request) bool
		args []string
		code int
	}{
		"without a policy":                    {attachments, nil, 0},
		"some, without a policy":              {others, nil, 0},
		"some, with a policy":                 {others, []string{"--key", "vendor.pub"}, 4},
		"some, with a policy, and allowed":    {others, []string{"--key", "vendor.pub", "--allow-missing"}, 0},
		"some, verification off":              {others, []string{"--policy", "none"}, 0},
		"the signature that is required":      {attachments, []string{"--key", "vendor.pub"}, 3},
		"the signature, and others allowed":   {attachments, []string{"--key", "vendor.pub", "--allow-missing"}, 3},
		"unsigned allowed, absence not known": {attachments, []string{"--key", "vendor.pub", "--allow-unsigned", "--allow-missing"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			deny = tt.deny
			to := "oci://" + target.Host + "/" + strings.ToLower(strings.NewReplacer(" ", "-", ",", "").Replace(name)) + ":1.0.0"
			code, out, errOut := runBundle(t, append([]string{"copy", from, to, "-o", "json"}, tt.args...)...)
			if code != tt.code {
				t.Fatalf("exit %d, want %d: %s", code, tt.code, errOut)
			}
			if code != 0 {
				if out != "" || code == 4 && !strings.Contains(errOut, "--allow-missing") {
					t.Errorf("says %q and %s", out, errOut)
				}
				if code, _, _ := runBundle(t, "verify", to, "--policy", "none"); code != 4 {
					t.Errorf("something was written: verify exits %d", code)
				}
				return
			}
			var result struct {
				Undetermined []struct {
					Subject, Lookup string
					Status          int
				}
			}
			if err := json.Unmarshal([]byte(out), &result); err != nil {
				t.Fatal(err)
			}
			subjects := map[string]bool{}
			for _, u := range result.Undetermined {
				subjects[u.Subject] = true
				if u.Status != http.StatusForbidden || !strings.Contains(errOut, u.Subject) {
					t.Errorf("%+v is not told: %s", u, errOut)
				}
			}
			if lines := strings.Count(errOut, "could not be determined"); lines != len(subjects) || lines == 0 {
				t.Errorf("%d lines for %d subjects: %s", lines, len(subjects), errOut)
			}
		})
	}
}

// A repository that has to exist first is named before anything is uploaded.
func TestCopyToAbsentRepository(t *testing.T) {
	source := registrytest.New(t, registrytest.Options{})
	target := registrytest.New(t, registrytest.Options{Absent: registrytest.AbsentUnknown, Repositories: []string{"mirror/shop"}})
	from := "oci://" + source.Host + "/shop:1.0.0"
	signedRelease(t, from)
	code, _, errOut := runBundle(t, "copy", from, "oci://"+target.Host+"/mirror/other")
	if code != 4 || !strings.Contains(errOut, "to create") || !strings.Contains(errOut, target.Host+"/mirror/other") {
		t.Errorf("exit %d: %s", code, errOut)
	}
	for _, r := range target.Requests() {
		if r.Method == http.MethodPut || r.Method == http.MethodPatch {
			t.Errorf("%s %s", r.Method, r.Path)
		}
	}
	if code, _, errOut := runBundle(t, "copy", from, "oci://"+target.Host+"/mirror/shop"); code != 0 {
		t.Errorf("exit %d: %s", code, errOut)
	}
}
