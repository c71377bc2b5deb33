//go:build linux

// Bench measures how long bundle and other tools take to carry the same images
// between the same registries and disks, and how much memory they hold: whole
// processes, from start to end, one after the other in turn.
//
// It knows how those programs are called, and makes what they carry from a seed.
// "make bench" runs it and writes docs/benchmarks.md. Begin with [bench.all].
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

type options struct {
	peers  string  // the folder of bundle; other programs are there or in PATH
	dir    string  // where everything is put; empty: the system's folder for temporary files
	scale  float64 // of the large workload
	rounds int     // of the workload of many
	report string  // the page to write; empty: none
	only   string  // a workload; empty: all
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	var opts options
	flags.StringVar(&opts.peers, "peers", "bin", "`folder` of bundle; other programs are found there or in PATH")
	flags.StringVar(&opts.dir, "dir", "", "`folder` for everything that is written, on the disk to measure")
	flags.Float64Var(&opts.scale, "scale", 1, "part of 8 GiB that the large workload is")
	flags.IntVar(&opts.rounds, "rounds", 3, "`times` that everything on the workload of many is run")
	flags.StringVar(&opts.report, "o", "", "`page` to write the results to")
	flags.StringVar(&opts.only, "only", "", "a `workload`, many or large, to leave the other out")
	heads := flags.String("heads", "", "ask for everything in a `file` and do nothing else: what the bench runs itself for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *heads != "" {
		return askHeads(*heads)
	}
	return measureAll(ctx, opts)
}

func measureAll(ctx context.Context, opts options) (err error) {
	if opts.peers, err = filepath.Abs(opts.peers); err != nil {
		return err
	}
	b, err := newBench(ctx, opts)
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.all(ctx); err != nil {
		return err
	}
	page, err := b.page()
	if err != nil {
		return err
	}
	fmt.Print(page)
	if opts.report == "" {
		return nil
	}
	return os.WriteFile(opts.report, []byte(page), 0o644)
}
