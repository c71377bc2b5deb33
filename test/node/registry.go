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
	"time"
)

// registryConfig: CNCF Distribution 2.8, docs/configuration.md. Its log has every
// request.
func registryConfig(dir string) string {
	return fmt.Sprintf(`version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}
http:
  addr: %q
  tls: {certificate: %q, key: %q}
`, filepath.Join(dir, "registry"), machineIP+":5443", filepath.Join(dir, "registry.pem"), filepath.Join(dir, "registry.key"))
}

// registryHosts is what a node's administrator writes for containerd:
// https://github.com/containerd/containerd/blob/main/docs/hosts.md
func registryHosts(ca string) string {
	return fmt.Sprintf("server = %q\n[host.%[1]q]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = %q\n", "https://"+Registry, ca)
}

func registryAnswers(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", machineIP+":5443")
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
