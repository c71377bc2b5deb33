package script

import (
	"fmt"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// servers are the registries and repositories of one script, by the name of the
// variable that holds their host.
type servers map[string]*registrytest.Server

// serversKey is where a script's servers are kept.
type serversKey struct{}

func serversOf(ts *testscript.TestScript) servers { return ts.Value(serversKey{}).(servers) }

// startRegistry starts a registry in memory, or one over a folder.
func startRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: registry NAME [FOLDER] [-login=USER:PASSWORD] [-token] [-tls] [-flat] [-absent=KIND] [-repositories=A,B]")
	}
	opts, folders := serverOptions(args[1:])
	for _, folder := range folders {
		server, err := registry.NewServer(registry.Location{Kind: registry.Layout, Path: ts.MkAbs(folder)}, registry.ServerOptions{})
		ts.Check(err)
		ts.Defer(func() { ts.Check(server.Close()) })
		opts.Handler = server
	}
	startServer(ts, args[0], opts)
}

// startRepository serves the packed charts, and all else, of a folder.
func startRepository(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: repository NAME FOLDER [-login=USER:PASSWORD] [-tls]")
	}
	opts, _ := serverOptions(args[2:])
	ts.Check(os.MkdirAll(ts.MkAbs(args[1]), 0o755))
	opts.Handler = registrytest.ChartFolder(ts.MkAbs(args[1]))
	startServer(ts, args[0], opts)
}

// serverOptions reads the words after the name of a server; the rest are not
// options.
func serverOptions(words []string) (opts registrytest.Options, rest []string) {
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "-login":
			opts.Username, opts.Password, _ = strings.Cut(value, ":")
		case "-token":
			opts.Token = &registrytest.TokenOptions{}
		case "-tls":
			opts.TLS = true
		case "-flat":
			opts.FlatOnly = true
		case "-absent":
			opts.Absent = registrytest.Absent(value)
		case "-repositories":
			opts.Repositories = strings.Split(value, ",")
		default:
			rest = append(rest, word)
		}
	}
	if opts.Token != nil {
		opts.Token.TLS = opts.TLS
	}
	return opts, rest
}

// startServer starts a server for as long as the script runs. With TLS the
// certificates of its authorities are in NAME.pem.
func startServer(ts *testscript.TestScript, name string, opts registrytest.Options) {
	server, err := registrytest.Start(opts)
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Setenv(name, server.Host)
	serversOf(ts)[name] = server
	if !opts.TLS {
		return
	}
	authorities := server.CA()
	if opts.Token != nil {
		authorities = append(authorities, server.TokenCA()...)
	}
	ts.Check(os.WriteFile(ts.MkAbs(name+".pem"), authorities, 0o644))
}

// requests prints what a server was asked since the last time.
func requests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || serversOf(ts)[args[0]] == nil {
		ts.Fatalf("usage: requests NAME, of a registry or repository")
	}
	server := serversOf(ts)[args[0]]
	asked := server.Requests()
	if len(asked) == 0 { // without a line the script would see what was printed before
		fmt.Fprintln(ts.Stdout(), "nothing was asked")
	}
	for _, r := range asked {
		fmt.Fprintf(ts.Stdout(), "%s %s %d\n", r.Method, r.Path, r.Status)
	}
	server.Forget()
}
