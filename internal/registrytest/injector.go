package registrytest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// An Injector makes one request of many go wrong: the one of a number, counted from
// when it was armed, or all from there on. Its method Fault is for [Options.Fault].
// The zero value is not armed.
type Injector struct {
	mu       sync.Mutex
	armed    bool
	at, seen int
	forGood  bool
	with     Fault
	met      string
}

// Arm lets the request of number at, and with forGood all later ones too, go wrong
// so.
func (i *Injector) Arm(at int, forGood bool, with Fault) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.armed, i.at, i.seen, i.forGood, i.with, i.met = true, at, 0, forGood, with, ""
}

// Disarm lets everything go right again. It gives the request that went wrong
// first, empty when there was none, and how many there were.
func (i *Injector) Disarm() (met string, seen int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.armed = false
	return i.met, i.seen
}

// Fault is what goes wrong with a request.
func (i *Injector) Fault(r *http.Request) *Fault {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.armed {
		return nil
	}
	n := i.seen
	i.seen++
	if n != i.at && !(n > i.at && i.forGood) {
		return nil
	}
	if i.met == "" {
		i.met = fmt.Sprintf("%s %s", r.Method, r.URL.RequestURI())
	}
	with := i.with
	return &with
}

// A Trouble is one thing that goes wrong with a registry.
type Trouble struct {
	Name    string
	Fault   Fault
	ForGood bool // from one request on
	Passes  bool // the same request, sent again, is answered well
	Slow    bool // a client waits for its idle timeout
	Absence bool // it says that something is not there, which is so
	Odd     bool // it is no answer to what was asked
}

// Troubles are all that there are, with places to cut and to spoil that rnd chooses.
// twin is the base URL of another host where the same content lies.
func Troubles(rnd *rand.Rand, twin string) []Trouble {
	near, far := 1+rnd.IntN(40), 1+rnd.IntN(4000)
	if rnd.IntN(2) == 0 {
		far = 1 + rnd.IntN(150_000)
	}
	wrong := http.Header{"Docker-Content-Digest": {"sha256:" + fmt.Sprintf("%064x", rnd.Uint64())}}
	html := http.Header{"Content-Type": {"text/html"}}
	return []Trouble{
		{Name: "dropped", Fault: Fault{Drop: true}, Passes: true},
		{Name: "dropped from there on", Fault: Fault{Drop: true}, ForGood: true},
		{Name: "401", Fault: Fault{Status: 401}},
		{Name: "403", Fault: Fault{Status: 403, Body: `{"errors":[{"code":"DENIED","message":"no"}]}`}},
		{Name: "404", Fault: Fault{Status: 404}, Absence: true},
		{Name: "429", Fault: Fault{Status: 429, Header: http.Header{"Retry-After": {"0"}}}, Passes: true},
		{Name: "429 from there on", Fault: Fault{Status: 429, Header: http.Header{"Retry-After": {"0"}}}, ForGood: true},
		{Name: "500", Fault: Fault{Status: 500}},
		{Name: "503", Fault: Fault{Status: 503, Header: html, Body: "<html>try later</html>"}, Passes: true},
		{Name: "no answer", Fault: Fault{Hang: true}, Passes: true, Slow: true},
		{Name: "the answer stands still", Fault: Fault{Stall: near}, Passes: true, Slow: true},
		{Name: "the answer is cut off", Fault: Fault{Cut: near}, Passes: true},
		{Name: "the answer is cut off later", Fault: Fault{Cut: far}, Passes: true},
		{Name: "the headers are cut off", Fault: Fault{CutHead: far}, Passes: true},
		{Name: "the request is cut off", Fault: Fault{Take: far}, Passes: true},
		{Name: "the request stands still", Fault: Fault{Stick: far}, Passes: true, Slow: true},
		{Name: "a byte is another", Fault: Fault{Corrupt: far}},
		{Name: "another digest in the header", Fault: Fault{Header: wrong}},
		{Name: "no digest in the header", Fault: Fault{Header: http.Header{"Docker-Content-Digest": nil}}},
		{Name: "moved to another host", Fault: Fault{MovedTo: twin}},
		{Name: "a web page", Fault: Fault{Status: 200, Header: html, Body: "<html>welcome</html>"}},
		{Name: "nothing", Fault: Fault{Status: 200}, Odd: true},
	}
}

// Patience is the idle timeout for tests of what stands still.
const Patience = 200 * time.Millisecond
