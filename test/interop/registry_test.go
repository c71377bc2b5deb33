package interop_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A registry is one that runs on the loopback, without TLS.
type registry struct{ name, host string }

// registryProgram is what runs each of them.
func registryProgram(name string) string {
	if name == "distribution-3" {
		return "registry"
	}
	return "docker-registry"
}

// registryConfig lets the system choose the port: the log tells it.
const registryConfig = `version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}
http: {addr: "127.0.0.1:0"}
`

// keeper runs a program until its own standard input ends, which happens when
// the test ends, in whatever way. What is meant for the test's process group
// reaches it too and does not end it.
const keeper = `"$@" &
trap '' HUP INT QUIT TERM
cat >/dev/null
kill -KILL $! || exit 1
wait $! || exit 0`

// startRegistry starts a registry, with more lines of configuration, and reports
// whether its program is there.
func (b *bench) startRegistry(t *testing.T, name string, more ...string) (registry, bool) {
	t.Helper()
	program := registryProgram(name)
	path, err := b.find(program)
	if err != nil {
		t.Logf("nothing is tried on %s: %v", name, err)
		return registry{}, false
	}
	if len(more) > 0 {
		name += "-again"
	}
	b.write(t, name+".yaml", fmt.Sprintf(registryConfig, b.path(name))+strings.Join(more, "\n"))
	log, err := os.Create(b.path(name + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command("sh", "-c", keeper, "keeper", path, "serve", b.path(name+".yaml"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	cmd.Stdout, cmd.Stderr = log, log
	pipe, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = pipe.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("ending %s: %v", name, err)
		}
	})
	version := strings.TrimSpace(b.must(t, program, "--version"))
	host := b.waitForRegistry(t, name)
	t.Logf("%s is %s", name, version)
	return registry{name: name, host: host}, true
}

// waitForRegistry returns host and port when the registry answers.
func (b *bench) waitForRegistry(t *testing.T, name string) string {
	t.Helper()
	listening := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		match := listening.FindSubmatch(b.read(t, name+".log"))
		if match == nil {
			continue
		}
		resp, err := http.Get("http://" + string(match[1]) + "/v2/")
		if err == nil {
			resp.Body.Close()
			return string(match[1])
		}
	}
	t.Fatalf("%s does not get ready; its log:\n%s", name, b.read(t, name+".log"))
	return ""
}

// at names content in a repository as the tools write it: HOST/REPOSITORY:TAG
// or HOST/REPOSITORY@DIGEST.
func (r registry) at(repository, reference string) string {
	if strings.HasPrefix(reference, "sha256:") {
		return r.host + "/" + repository + "@" + reference
	}
	return r.host + "/" + repository + ":" + reference
}

// manifest reads a manifest and hashes it, trusting no tool.
func (r registry) manifest(t *testing.T, repository, reference string) (string, []byte) {
	t.Helper()
	accept := strings.Join([]string{ocispec.MediaTypeImageIndex, ocispec.MediaTypeImageManifest}, ", ")
	data := r.get(t, "/v2/"+repository+"/manifests/"+reference, accept)
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data)), data
}

// attachments are the signatures in a repository by their tags: the digest that
// a tag of cosign's names, or those that a referrers index lists
// (distribution-spec, "Referrers Tag Schema").
func (r registry) attachments(t *testing.T, repository string) map[string][]string {
	t.Helper()
	var tags struct {
		Tags []string `json:"tags"`
	}
	decode(t, r.get(t, "/v2/"+repository+"/tags/list", "application/json"), &tags)
	out := map[string][]string{}
	for _, tag := range tags.Tags {
		if !strings.HasPrefix(tag, "sha256-") {
			continue
		}
		digest, data := r.manifest(t, repository, tag)
		if strings.HasSuffix(tag, ".sig") {
			out[tag] = []string{digest}
			continue
		}
		var index ocispec.Index
		decode(t, data, &index)
		for _, desc := range index.Manifests {
			out[tag] = append(out[tag], desc.Digest.String())
		}
	}
	return out
}

func (r registry) get(t *testing.T, path, accept string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", req.URL, resp.Status, data, err)
	}
	return data
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
}
