package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/urfave/cli/v2"

	"waybill/internal/files"
	"waybill/internal/flags"
	"waybill/internal/htpasswd"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name: "serve", Usage: "be a registry over an archive or a folder",
		ArgsUsage: "FILE.tar|FOLDER",
		Description: `An archive is served as it is, read-only and without unpacking. A folder is
served for reading and pushing; one that is empty or not there yet is made. A
release is found at REPOSITORY:TAG, its name and version.

  bundle serve shop-1.0.0.tar
  bundle serve ./mirror --listen 127.0.0.1:0
  bundle serve ./mirror --listen :5000 --cert-file tls.crt --key-file tls.key --htpasswd users

The first line on stdout is the address, then a location for each tag. It ends
when it is interrupted. With a policy, what is there at the start must be
accepted; what is pushed later, and content below the roots, is for those who
pull it to check: "bundle verify" does.

Exit codes: 0 interrupted, 1 the address is taken, 2 usage, 3 refused by the
policy, 6 content corrupt, or a delta without its base.`,
		Flags: flags.Join([]cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:5000", Usage: "`ADDRESS` to listen at; port 0 is any free one"},
			&cli.StringFlag{Name: "cert-file", Usage: "PEM `FILE` with the TLS certificate of this registry, the chain included"},
			&cli.StringFlag{Name: "key-file", Usage: "PEM `FILE` with the TLS key of this registry"},
			&cli.StringFlag{Name: "htpasswd", Usage: "`FILE` of who may read and write, as \"htpasswd -B\" writes it"},
		}, flags.Policy(), flags.Common()),
		Action: func(c *cli.Context) error {
			opts, err := serveOptionsFrom(c)
			if err != nil {
				return err
			}
			return runServe(c.Context, opts, c.App.Writer, flags.Talk(c))
		},
	}
}

type serveOptions struct {
	loc    registry.Location
	listen string
	tls    *tls.Config      // nil: plain HTTP
	logins *htpasswd.Logins // nil: everybody may read and write
	policy *signing.Policy
	form   flags.Form
}

func serveOptionsFrom(c *cli.Context) (opts serveOptions, err error) {
	opts.listen = c.String("listen")
	if _, err := net.ResolveTCPAddr("tcp", opts.listen); err != nil {
		return opts, &flags.UsageError{
			Message: fmt.Sprintf("--listen %q is no address to listen at: %v", opts.listen, err),
			Hint:    "such as 127.0.0.1:5000, or :5000 for all addresses of this machine",
		}
	}
	arg, err := flags.OneArg(c, "archive or folder")
	if err != nil {
		return opts, err
	}
	if opts.loc, err = registry.ParseLocation(arg); err != nil {
		return opts, err
	}
	if opts.loc.Name != "" || opts.loc.Digest != "" {
		return opts, flags.Usagef("%q chooses one thing; all of an archive or folder is served", arg)
	}
	if opts.form, err = flags.Output(c); err != nil {
		return opts, err
	}
	if opts.tls, err = serverTLS(c.String("cert-file"), c.String("key-file")); err != nil {
		return opts, err
	}
	if opts.logins, err = readLogins(c.String("htpasswd")); err != nil {
		return opts, err
	}
	opts.policy, err = flags.LoadPolicy(c, c.StringSlice("key"))
	return opts, err
}

func serverTLS(cert, key string) (*tls.Config, error) {
	if cert == "" && key == "" {
		return nil, nil
	}
	if cert == "" || key == "" {
		return nil, flags.Usagef("TLS needs both --cert-file and --key-file")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, flags.Usagef("certificate %q with key %q: %v", cert, key, err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, nil
}

func readLogins(path string) (*htpasswd.Logins, error) {
	if path == "" {
		return nil, nil
	}
	data, err := files.Read(path)
	if err != nil {
		return nil, err
	}
	logins, err := htpasswd.Parse(data)
	if err != nil {
		return nil, flags.Usagef("--htpasswd %q: %v", path, err)
	}
	return logins, nil
}

// A served registry is what `serve` says in JSON when it is ready.
type served struct {
	Address  string      `json:"address"` // HOST:PORT
	URL      string      `json:"url"`
	Location string      `json:"location"`
	ReadOnly bool        `json:"readOnly"`
	Tags     []servedTag `json:"tags"`
}

type servedTag struct {
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
	Digest     string `json:"digest"`
	Reference  string `json:"reference"`
}

// A servedDeltaError reports a delta, which alone would be a registry that lacks
// what it lists.
type servedDeltaError struct {
	delta *registry.DeltaError
	path  string
}

func (e *servedDeltaError) Error() string { return e.delta.Error() + "; it can't be served alone" }

func (e *servedDeltaError) Unwrap() error { return e.delta }

// ExitCode is that of content that is not whole.
func (e *servedDeltaError) ExitCode() int { return ui.ExitCorrupt }

// Hint says what to type next.
func (e *servedDeltaError) Hint() string {
	return "`bundle load " + e.path + " FOLDER --base BASE` makes a folder of both, which can be served"
}

func runServe(ctx context.Context, opts serveOptions, out io.Writer, talk *ui.Talk) (err error) {
	server, err := registry.NewServer(opts.loc, registry.ServerOptions{
		OnPush: func(repository, tag string, d digest.Digest) { talk.Sayf("pushed %s:%s, %s", repository, tag, d) },
	})
	if delta, ok := errors.AsType[*registry.DeltaError](err); ok {
		return &servedDeltaError{delta: delta, path: opts.loc.Path}
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	tags, clashes, err := server.Tags()
	if err != nil {
		return err
	}
	if err := examineServed(ctx, opts, tags, talk); err != nil {
		return err
	}
	for _, clash := range clashes {
		talk.Warnf("two things here would be %s:%s; %s is reached by its digest alone", clash.Repository, clash.Tag, clash.Digest)
	}
	listener, err := net.Listen("tcp", opts.listen)
	if err != nil {
		return fmt.Errorf("listening at %s: %w", opts.listen, err)
	}
	warnOpen(opts, listener.Addr(), server.ReadOnly(), talk)
	if err := printServed(out, opts, listener.Addr().String(), server.ReadOnly(), tags); err != nil {
		return errors.Join(err, listener.Close())
	}
	handler := http.Handler(server)
	if opts.logins != nil {
		handler = opts.logins.Guard(server)
	}
	return serveUntilDone(ctx, handler, listener, opts.tls, talk)
}

// examineServed holds every root against the policy, and says of each bundle
// who signed it.
func examineServed(ctx context.Context, opts serveOptions, tags []registry.ServedTag, talk *ui.Talk) error {
	client, err := registry.NewClient(registry.Settings{}) // for local places
	if err != nil {
		return err
	}
	var roots []digest.Digest
	for _, t := range tags {
		roots = append(roots, t.Descriptor.Digest)
	}
	return examineRoots(ctx, client, opts.loc, roots, opts.policy, talk)
}

// warnOpen says when everybody on the network may push.
func warnOpen(opts serveOptions, addr net.Addr, readOnly bool, talk *ui.Talk) {
	tcp, ok := addr.(*net.TCPAddr)
	switch {
	case !ok || tcp.IP.IsLoopback():
	case opts.logins == nil && !readOnly:
		talk.Warnf("whoever reaches %s may push; --htpasswd asks for a login", addr)
	case opts.logins != nil && opts.tls == nil:
		talk.Warnf("passwords reach %s without TLS; give --cert-file and --key-file", addr)
	}
}

func printServed(out io.Writer, opts serveOptions, address string, readOnly bool, tags []registry.ServedTag) error {
	scheme := "http://"
	if opts.tls != nil {
		scheme = "https://"
	}
	result := served{Address: address, URL: scheme + address, Location: opts.loc.String(), ReadOnly: readOnly, Tags: []servedTag{}}
	for _, t := range tags {
		result.Tags = append(result.Tags, servedTag{
			Repository: t.Repository, Tag: t.Tag, Digest: t.Descriptor.Digest.String(),
			Reference: fmt.Sprintf("oci://%s/%s:%s@%s", address, t.Repository, t.Tag, t.Descriptor.Digest),
		})
	}
	if opts.form == flags.JSON {
		return ui.JSON(out, result)
	}
	ui.Println(out, result.URL)
	for _, t := range result.Tags {
		ui.Println(out, t.Reference)
	}
	return nil
}

// endPatience is how long transfers may take to end once the server is told to.
const endPatience = 5 * time.Second

// serveUntilDone serves until ctx ends, which is the ordinary end.
func serveUntilDone(ctx context.Context, handler http.Handler, listener net.Listener, config *tls.Config, talk *ui.Talk) error {
	server := &http.Server{
		Handler: handler, TLSConfig: config,
		ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 5 * time.Minute,
		ErrorLog: log.New(io.Discard, "", 0), // what clients do wrong is theirs to see
	}
	failed := make(chan error, 1)
	go func() {
		if config != nil {
			failed <- server.ServeTLS(listener, "", "")
			return
		}
		failed <- server.Serve(listener)
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	talk.Sayf("ending")
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	if err := server.Shutdown(end); errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	} else if err != nil {
		return err
	}
	return nil
}
