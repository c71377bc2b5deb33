// Command cluster builds and runs the project's test cluster outside of tests. All it knows is its two words; the rest
// is waybill/test/cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"waybill/test/cluster"
)

const usage = `usage:
  cluster build        build what is missing of etcd, kube-apiserver and kube-controller-manager, and print where they are
  cluster build node   the same, and kube-scheduler and kubelet, which test/node needs
  cluster up DIR       start a cluster that keeps its kubeconfig and logs in DIR, print the kubeconfig's path, run until interrupted
`

var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "cluster: error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	switch {
	case len(args) == 1 && args[0] == "build":
		return build(ctx, out, log)
	case len(args) == 2 && args[0] == "build" && args[1] == "node":
		return build(ctx, out, log, "kube-scheduler", "kubelet")
	case len(args) == 2 && args[0] == "up":
		return up(ctx, args[1], out, log)
	}
	return errUsage
}

func build(ctx context.Context, out, log io.Writer, further ...string) error {
	programs, err := cluster.Build(ctx, log, further...)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		if _, err := fmt.Fprintln(out, programs[name]); err != nil {
			return err
		}
	}
	return nil
}

func up(ctx context.Context, dir string, out, log io.Writer) error {
	programs, err := cluster.Build(ctx, log)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Programs: programs, Dir: dir})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, c.Kubeconfig()); err != nil {
		return errors.Join(err, c.Stop())
	}
	<-ctx.Done()
	return c.Stop()
}
