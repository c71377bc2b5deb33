package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A User is somebody the API server knows by a client certificate: any name and any groups.
type User struct {
	Name   string
	Groups []string
}

// An authority is the one certificate authority of a cluster: it vouches for the server and for every user.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate(pkix.Name{CommonName: "waybill-test-cluster"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	return &authority{certificate: parsed, key: key}, err
}

// certificate is what all certificates of a cluster have in common. They begin an hour ago, for clocks that were set
// back meanwhile, and outlast any cluster.
func certificate(subject pkix.Name) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// pem is the authority's certificate, which clients trust.
func (a *authority) pem() []byte { return certificatePEM(a.certificate.Raw) }

// server issues the API server's certificate.
func (a *authority) server(ip net.IP) (cert, key []byte, err error) {
	template := certificate(pkix.Name{CommonName: "kube-apiserver"})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{ip}
	return a.issue(template)
}

// client issues a user's certificate. Kubernetes reads the user from the common name and the groups from the
// organizations: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#x509-client-certificates
func (a *authority) client(user User) (cert, key []byte, err error) {
	template := certificate(pkix.Name{CommonName: user.Name, Organization: user.Groups})
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	key, err = keyPEM(private)
	return certificatePEM(der), key, err
}

// kubeconfig is the configuration with which a user reaches the server.
func (a *authority) kubeconfig(server string, user User) (clientcmdapi.Config, error) {
	cert, key, err := a.client(user)
	if err != nil {
		return clientcmdapi.Config{}, fmt.Errorf("issuing a certificate for user %q: %w", user.Name, err)
	}
	return clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: server, CertificateAuthorityData: a.pem()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user.Name: {ClientCertificateData: cert, ClientKeyData: key}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: user.Name}},
		CurrentContext: "test",
	}, nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
