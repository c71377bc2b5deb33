//go:build linux

package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// A registryServer is one of the site's registries. What it keeps, and the names of
// its files, go by its port.
type registryServer struct {
	host  string // as it stands in references
	login bool
}

var registries = []registryServer{{host: Registry}, {host: LoginRegistry, login: true}}

func (r registryServer) port() string { return strings.TrimPrefix(r.host, registryName) }

func (r registryServer) configFile(dir string) string {
	return filepath.Join(dir, "registry"+strings.Replace(r.port(), ":", "-", 1)+".yaml")
}

// config: CNCF Distribution 2.8, docs/configuration.md. Its log has every request.
func (r registryServer) config(dir string) string {
	text := fmt.Sprintf(`version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}
http:
  addr: %q
  tls: {certificate: %q, key: %q}
`, filepath.Join(dir, "registry"+r.port()), machineIP+r.port(), filepath.Join(dir, "registry.pem"), filepath.Join(dir, "registry.key"))
	if r.login {
		text += fmt.Sprintf("auth: {htpasswd: {realm: site, path: %q}}\n", filepath.Join(dir, "htpasswd"))
	}
	return text
}

// htpasswd is the file of who may log in.
func htpasswd() (string, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(Password), bcrypt.MinCost)
	return User + ":" + string(hash) + "\n", err
}

// hosts is what a node's administrator writes for containerd:
// https://github.com/containerd/containerd/blob/main/docs/hosts.md
func (r registryServer) hosts(ca string) string {
	return fmt.Sprintf("server = %q\n[host.%[1]q]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = %q\n", "https://"+r.host, ca)
}

func (r registryServer) answers(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", machineIP+r.port())
	if err != nil {
		return err
	}
	return conn.Close()
}

// newCertificate makes a server's certificate that nobody but itself vouches for.
func newCertificate(name string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret}), nil
}
