// Package htpasswd asks for a login before a server's answers, with the names and
// passwords of a file that htpasswd writes. It knows nothing of what is served,
// except that refusals are in a registry's words. Try [Parse] first.
package htpasswd

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"cuelabs.dev/go/oci/ociregistry"
	"golang.org/x/crypto/bcrypt"
)

// Logins are names and passwords as `htpasswd -B` writes them.
type Logins struct {
	hashes map[string][]byte // bcrypt, by name
	nobody []byte            // compared with when the name is not known, so that both take as long
	secret [sha256.Size]byte

	mu    sync.Mutex
	known map[[sha256.Size]byte]bool // what was accepted before: bcrypt is slow on purpose
}

// Parse reads lines of NAME:HASH; lines that are empty or begin with # say
// nothing. Hashes other than bcrypt's are an error that names the line.
func Parse(data []byte) (*Logins, error) {
	l := &Logins{hashes: map[string][]byte{}, known: map[[sha256.Size]byte]bool{}}
	cost := bcrypt.MinCost
	lines := bufio.NewScanner(bytes.NewReader(data))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, hash, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("line %d: want NAME:HASH", number)
		}
		c, err := bcrypt.Cost([]byte(hash))
		if err != nil {
			return nil, fmt.Errorf("line %d: the password of %q is not hashed with bcrypt (htpasswd -B)", number, name)
		}
		if _, twice := l.hashes[name]; twice {
			return nil, fmt.Errorf("line %d: %q is there twice", number, name)
		}
		cost = max(cost, c)
		l.hashes[name] = []byte(hash)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(l.hashes) == 0 {
		return nil, fmt.Errorf("there is nobody in it")
	}
	if _, err := rand.Read(l.secret[:]); err != nil {
		return nil, err
	}
	var err error
	l.nobody, err = bcrypt.GenerateFromPassword(l.secret[:32], cost)
	return l, err
}

// Guard lets through requests with a login that is known.
func (l *Logins) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, ok := r.BasicAuth()
		if !ok || !l.accept(name, password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="waybill"`)
			w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
			_ = ociregistry.WriteError(w, ociregistry.ErrUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (l *Logins) accept(name, password string) bool {
	mac := hmac.New(sha256.New, l.secret[:])
	fmt.Fprintf(mac, "%d:%s%s", len(name), name, password)
	key := [sha256.Size]byte(mac.Sum(nil))
	l.mu.Lock()
	accepted := l.known[key]
	l.mu.Unlock()
	if accepted {
		return true
	}
	hash, ok := l.hashes[name]
	if !ok {
		hash = l.nobody
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[key] = true
	return true
}
