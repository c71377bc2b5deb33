package registrytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

// TokenOptions say what the token service of a registry is like. Who may have
// a token say [Options.Username] and [Options.Password]; without them anybody.
type TokenOptions struct {
	TLS      bool                         // HTTPS under an authority of its own, see [Server.TokenCA]
	Lifetime time.Duration                // of a token; 0: an hour
	Identity string                       // an identity token that may be given instead of the password
	Fault    func(*http.Request) *Fault   // of the token service, as Options.Fault
	Realm    func(realm string) string    // what the registry names instead of its token service; nil: that
	Refuse   func(r *http.Request) string // a valid token is refused with this error, "invalid_token" for one; nil or "": it is taken
}

// A TokenRequest is one line of the token service's log.
type TokenRequest struct {
	Method string
	Login  string // user, or "identity"; empty for none
	Scopes []string
	Status int
}

// tokenService gives tokens for one registry, as the distribution project's
// token authentication specification has it.
type tokenService struct {
	opts      TokenOptions
	user      string
	password  string
	authority *Authority
	http      *httptest.Server
	fail      func(w *recorder, r *http.Request, f *Fault)

	mu     sync.Mutex
	tokens map[string]grant
	log    []TokenRequest
}

// grant is what a token is good for.
type grant struct {
	until  time.Time
	scopes []string
}

// TokenURL is the realm that the registry names.
func (s *Server) TokenURL() string { return s.tokens.http.URL + "/token" }

// TokenCA is the PEM certificate that vouches for a token service with TLS.
func (s *Server) TokenCA() []byte { return s.tokens.authority.PEM() }

// TokenRequests is what the token service was asked so far, in order.
func (s *Server) TokenRequests() []TokenRequest {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	return slices.Clone(s.tokens.log)
}

// RevokeTokens makes every token given so far invalid.
func (s *Server) RevokeTokens() {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	clear(s.tokens.tokens)
}

func startTokens(opts Options, fail func(*recorder, *http.Request, *Fault)) (*tokenService, error) {
	t := &tokenService{opts: *opts.Token, user: opts.Username, password: opts.Password, fail: fail, tokens: map[string]grant{}}
	if t.opts.Lifetime == 0 {
		t.opts.Lifetime = time.Hour
	}
	var err error
	if t.authority, err = NewAuthority("authority of the token service"); err != nil {
		return nil, err
	}
	t.http, err = startServer(t, opts.Token.TLS, false, t.authority, nil)
	return t, err
}

// ServeHTTP gives a token.
func (t *tokenService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	logged := &recorder{ResponseWriter: w}
	_ = r.ParseForm()
	entry := TokenRequest{Method: r.Method, Scopes: strings.Fields(strings.Join(r.Form["scope"], " "))}
	defer func() {
		entry.Status = logged.status
		t.mu.Lock()
		t.log = append(t.log, entry)
		t.mu.Unlock()
	}()
	if t.opts.Fault != nil {
		if f := t.opts.Fault(r); f != nil {
			t.fail(logged, r, f)
			return
		}
	}
	login, ok := t.login(r)
	entry.Login = login
	if !ok {
		w.Header().Set("Content-Type", "application/json")
		logged.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprint(logged, `{"errors":[{"code":"UNAUTHORIZED","message":"the token service does not know you"}]}`)
		return
	}
	_ = json.NewEncoder(logged).Encode(t.grant(entry.Scopes))
}

// login says who asks, and whether that is somebody.
func (t *tokenService) login(r *http.Request) (string, bool) {
	if t.opts.Identity != "" && r.PostForm.Get("grant_type") == "refresh_token" {
		return "identity", r.PostForm.Get("refresh_token") == t.opts.Identity
	}
	user, password, _ := r.BasicAuth()
	return user, t.user == "" || user == t.user && password == t.password
}

func (t *tokenService) grant(scopes []string) map[string]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	token := fmt.Sprintf("token-%d-of-the-tests", len(t.log)+len(t.tokens))
	t.tokens[token] = grant{time.Now().Add(t.opts.Lifetime), scopes}
	return map[string]any{"token": token, "access_token": token, "expires_in": max(int(t.opts.Lifetime.Seconds()), 1)}
}

// challenge says what is wrong with the token of a request: "" when nothing is,
// else the header that asks for a better one.
func (t *tokenService) challenge(r *http.Request) string {
	realm := t.http.URL + "/token"
	if t.opts.Realm != nil {
		realm = t.opts.Realm(realm)
	}
	header := fmt.Sprintf(`Bearer realm=%q,service="test registry"`, realm)
	scope := scopeOf(r)
	if scope != "" {
		header += fmt.Sprintf(",scope=%q", scope)
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return header
	}
	t.mu.Lock()
	g, known := t.tokens[token]
	t.mu.Unlock()
	refused := ""
	if t.opts.Refuse != nil {
		refused = t.opts.Refuse(r)
	}
	switch {
	case !known || time.Now().After(g.until):
		return header + `,error="invalid_token"`
	case !allows(g.scopes, scope):
		return header + `,error="insufficient_scope"`
	case refused != "":
		return header + fmt.Sprintf(",error=%q", refused)
	}
	return ""
}

// scopeOf is what a token must allow for a request.
func scopeOf(r *http.Request) string {
	rest, ok := strings.CutPrefix(r.URL.Path, "/v2/")
	if !ok || rest == "" {
		return ""
	}
	repository := rest
	for _, end := range []string{"/manifests/", "/blobs/", "/tags/", "/referrers/"} {
		if at := strings.LastIndex(repository, end); at >= 0 {
			repository = repository[:at]
		}
	}
	if r.Method == http.MethodGet && !strings.Contains(rest, "/blobs/uploads/") || r.Method == http.MethodHead {
		return "repository:" + repository + ":pull"
	}
	return "repository:" + repository + ":pull,push"
}

// allows says whether the scopes of a token hold every action of want.
func allows(scopes []string, want string) bool {
	at := strings.LastIndexByte(want, ':')
	if at < 0 {
		return true
	}
	for _, action := range strings.Split(want[at+1:], ",") {
		if !slices.ContainsFunc(scopes, func(scope string) bool {
			have, ok := strings.CutPrefix(scope, want[:at+1])
			return ok && slices.Contains(strings.Split(have, ","), action)
		}) {
			return false
		}
	}
	return true
}
