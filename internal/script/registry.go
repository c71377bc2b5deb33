package script

import (
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// startRegistry starts a registry, in memory or over a folder.
func startRegistry(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: registry NAME [FOLDER] [-login=USER:PASSWORD] [-token] [-tls]")
	}
	var opts registrytest.Options
	for _, word := range args[1:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "-login":
			opts.Username, opts.Password, _ = strings.Cut(value, ":")
		case "-token":
			opts.Token = &registrytest.TokenOptions{}
		case "-tls":
			opts.TLS = true
		default:
			server, err := registry.NewServer(registry.Location{Kind: registry.Layout, Path: ts.MkAbs(word)}, registry.ServerOptions{})
			ts.Check(err)
			ts.Defer(func() { ts.Check(server.Close()) })
			opts.Handler = server
		}
	}
	if opts.Token != nil {
		opts.Token.TLS = opts.TLS
	}
	server, err := registrytest.Start(opts)
	ts.Check(err)
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.Host)
	if opts.TLS {
		authorities := server.CA()
		if opts.Token != nil {
			authorities = append(authorities, server.TokenCA()...)
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[0]+".pem"), authorities, 0o644))
	}
}
