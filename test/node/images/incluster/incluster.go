// Package incluster speaks with the API server from inside a pod, in a few lines
// and without client-go, so that images stay small. Begin with [New].
package incluster

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

// account is where the pod's service account is mounted:
// https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
const account = "/var/run/secrets/kubernetes.io/serviceaccount"

// ErrExists reports that an object is there already.
var ErrExists = errors.New("exists already")

// An API speaks as the pod's service account about its own namespace.
type API struct {
	base, token string
	client      *http.Client
}

// New reads the pod's service account.
func New() (*API, error) {
	var ca, token, namespace []byte
	for name, into := range map[string]*[]byte{"ca.crt": &ca, "token": &token, "namespace": &namespace} {
		data, err := os.ReadFile(filepath.Join(account, name))
		if err != nil {
			return nil, err
		}
		*into = data
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("the service account has no certificate authority")
	}
	host := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	return &API{
		base:   "https://" + host + "/api/v1/namespaces/" + string(namespace) + "/",
		token:  string(token),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
	}, nil
}

// Do sends one request about a path in the namespace. Errors: [ErrExists].
func (a *API) Do(method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequest(method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<22))
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusConflict:
		return nil, fmt.Errorf("%s %s: %w", method, path, ErrExists)
	case resp.StatusCode >= 300:
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return answer, nil
}
