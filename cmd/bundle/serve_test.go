package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With a certificate and a login the registry is closed to who has neither, and
// ends well when it is told to.
func TestServeTLSAndLogin(t *testing.T) {
	dir := t.TempDir()
	example := httptest.NewTLSServer(http.NotFoundHandler())
	example.Close()
	pair := example.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	const login = "me:$2a$04$7s6fMV9zc3G4pJ6W/lcID.cY/LqJtWWgn9cp667ZwrmtqcRrFhBEy\n" // of "secret"
	for name, data := range map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"users":   []byte(login),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, write := io.Pipe()
	var errOut bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{
			"bundle", "serve", "oci-layout:" + filepath.Join(dir, "mirror"), "--listen", "127.0.0.1:0",
			"--cert-file", filepath.Join(dir, "tls.crt"), "--key-file", filepath.Join(dir, "tls.key"), "--htpasswd", filepath.Join(dir, "users"),
		}, strings.NewReader(""), write, &errOut)
		write.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "https://127.0.0.1:") {
		t.Fatalf("the first line is %q, %v; stderr %s", line, err, errOut.String())
	}
	url := strings.TrimSpace(line) + "/v2/"
	if _, err := http.Get(url); err == nil {
		t.Error("a certificate that nobody vouches for is trusted")
	}
	for password, want := range map[string]int{"": 401, "wrong": 401, "secret": 200} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if password != "" {
			req.SetBasicAuth("me", password)
		}
		resp, err := example.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with password %q: %d, want %d", password, resp.StatusCode, want)
		}
	}
	stop()
	if got := <-code; got != 0 {
		t.Errorf("exit %d, stderr %s", got, errOut.String())
	}
}
