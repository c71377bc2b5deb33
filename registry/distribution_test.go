package registry_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waybill/registry"
)

// distribution starts Debian's docker-registry, CNCF Distribution 2.8, on a free
// port. The test is skipped where that program is not installed.
func distribution(t *testing.T) (host string) {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Skip("no docker-registry in PATH")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host = listener.Addr().String()
	listener.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage:\n  filesystem: {rootdirectory: %s}\n  delete: {enabled: true}\nhttp: {addr: %q, secret: of the test}\n", filepath.Join(dir, "data"), host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for range 100 {
		if resp, err := http.Get("http://" + host + "/v2/"); err == nil {
			resp.Body.Close()
			return host
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the registry does not answer")
	return ""
}

// A cutter is a way to a host that breaks connections after some bytes of what
// the client sends.
type cutter struct {
	host  string
	after []int64 // for the first, second, … long transfer; 0: not at all
	mu    sync.Mutex
	cuts  atomic.Int64
}

func newCutter(t *testing.T, to string, after ...int64) *cutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	c := &cutter{host: listener.Addr().String(), after: after}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go c.carry(conn, to)
		}
	}()
	return c
}

func (c *cutter) carry(client net.Conn, to string) {
	server, err := net.Dial("tcp", to)
	if err != nil {
		client.Close()
		return
	}
	go func() { _, _ = io.Copy(client, server); client.Close() }()
	defer server.Close()
	defer client.Close()
	c.mu.Lock()
	var limit int64
	if len(c.after) > 0 {
		limit = c.after[0]
	}
	c.mu.Unlock()
	if limit == 0 {
		_, _ = io.Copy(server, client)
		return
	}
	if n, _ := io.CopyN(server, client, limit); n == limit {
		c.mu.Lock()
		c.after = c.after[1:]
		c.mu.Unlock()
		c.cuts.Add(1)
		time.Sleep(100 * time.Millisecond) // for the registry to take it in
	}
}

// Distribution takes chunks, and survives a connection that is cut within one:
// from version 3 on the upload goes on, before that it begins again.
func TestUploadToDistribution(t *testing.T) {
	const mib = 1 << 20
	host := distribution(t)
	p := random(t, 9*mib)
	for name, after := range map[string][]int64{
		"not cut":           nil,
		"in a chunk":        {3 * mib},
		"in two of them":    {3 * mib, 2*mib + 100},
		"before the commit": {9*mib + 2000},
	} {
		t.Run(name, func(t *testing.T) {
			way := newCutter(t, host, after...)
			settings := registry.Settings{ChunkSize: 2 * mib}
			dst, err := client(t, settings).Create(t.Context(), location(t, "oci://"+way.host+"/"+strings.ReplaceAll(name, " ", "-")))
			if err != nil {
				t.Fatal(err)
			}
			if err := dst.Push(t.Context(), p.desc, bytes.NewReader(p.data)); err != nil {
				t.Fatal(err)
			}
			if err := fetch(t.Context(), dst, p); err != nil {
				t.Error(err)
			}
			if n := way.cuts.Load(); n != int64(len(after)) {
				t.Errorf("%d cuts, want %d", n, len(after))
			}
		})
	}
	t.Run("probe", func(t *testing.T) {
		if err := client(t, registry.Settings{}).Probe(t.Context(), location(t, "oci://"+host+"/new")); err != nil {
			t.Error(err)
		}
	})
}
