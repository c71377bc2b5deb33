package registry

import (
	"crypto/tls"
	"errors"
	"net/http"
	"sync"
)

// certificateWatch knows which hosts asked for a client's certificate. With TLS
// 1.3 a server refuses one, or its absence, when the client has begun to send:
// the refusal may be lost with the connection, and all that is seen is that it was
// closed.
type certificateWatch struct {
	config *tls.Config

	mu       sync.Mutex
	asked    map[string]bool // by host: whether one was shown
	answered map[string]bool // by host: it is content with what it got
}

// newCertificateWatch makes config's certificates be shown under its eyes.
func newCertificateWatch(config *tls.Config) *certificateWatch {
	w := &certificateWatch{config: config.Clone(), asked: map[string]bool{}, answered: map[string]bool{}}
	w.config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		shown := &tls.Certificate{}
		for i := range config.Certificates {
			if info.SupportsCertificate(&config.Certificates[i]) == nil {
				shown = &config.Certificates[i]
				break
			}
		}
		if watch, ok := info.Context().Value(watchKey{}).(*idleWatch); ok {
			w.mu.Lock()
			w.asked[watch.host] = len(shown.Certificate) > 0
			w.mu.Unlock()
		}
		return shown, nil
	}
	return w
}

// explain says of a connection that was closed what it was closed for, where the
// host asked for a certificate on it and never answered anything.
func (w *certificateWatch) explain(req *http.Request, err error) error {
	host := req.URL.Host
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.answered[host] = true
		return nil
	}
	shown, asked := w.asked[host]
	if !asked || w.answered[host] || as[tls.AlertError](err) || req.Context().Err() != nil {
		return err
	}
	return &certificateWantedError{shown: shown, err: err}
}

// certificateWantedError is a host that asked for a client's certificate and
// closed the connection.
type certificateWantedError struct {
	shown bool
	err   error
}

func (e *certificateWantedError) Error() string {
	if e.shown {
		return "refuses the TLS connection: it asked for a client's certificate, was shown one and closed the connection"
	}
	return "refuses the TLS connection: certificate required (it asked for a client's, got none and closed the connection)"
}

func (e *certificateWantedError) Unwrap() error { return e.err }

// certificateWanted says whether a connection failed for the want of a client's
// certificate.
func certificateWanted(err error) bool {
	var wanted *certificateWantedError
	var alert tls.AlertError
	const certificateRequired = 116 // RFC 8446, section 6
	return errors.As(err, &wanted) && !wanted.shown || errors.As(err, &alert) && alert == certificateRequired
}
