// Command web answers /healthz until it gets a signal. With a folder as argument
// it keeps a file there, and is healthy only while that can be read.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	kept := "" // nothing is
	if len(args) > 0 {
		kept = filepath.Join(args[0], "kept")
		if err := os.WriteFile(kept, []byte("kept\n"), 0o644); err != nil {
			return err
		}
	}
	server := &http.Server{Addr: ":8080", Handler: handler(kept)}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func handler(kept string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if kept != "" {
			if _, err := os.ReadFile(kept); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
