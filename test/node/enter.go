//go:build linux

package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Command is a program that will run inside the site, in its folder, as a site's
// operator runs it: the cluster and the home folder are the site's, and the
// environment holds nothing else.
func (s *Site) Command(ctx context.Context, path string, args ...string) *exec.Cmd {
	enter := []string{
		"--target", strconv.Itoa(s.processes.first.Process.Pid), "--net", "--mount", "--uts", "--ipc", "--pid", "--wd=" + s.dir, "--", path,
	}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.path("home"), "KUBECONFIG=" + s.Kubeconfig()}
	return cmd
}

// Config is a new configuration for clients in this process: they speak through
// [Site.Dial].
func (s *Site) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.Dial = s.Dial
	return config, nil
}

// Dial connects to an address inside the site, IP:PORT or HOST:PORT of a
// registry of it. A socket belongs to the network it was made in, wherever it is used:
// one thread of ours goes there to make it.
func (s *Site) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if port, ok := strings.CutPrefix(address, registryName); ok {
		address = machineIP + port
	}
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		conn, err := s.dialInside(ctx, network, address)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

func (s *Site) dialInside(ctx context.Context, network, address string) (net.Conn, error) {
	space, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", s.processes.first.Process.Pid))
	if err != nil {
		return nil, fmt.Errorf("entering the site's network: %w", err)
	}
	defer space.Close()
	if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("entering the site's network: %w", err)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}
