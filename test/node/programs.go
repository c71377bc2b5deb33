//go:build linux

package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"waybill/test/cluster"
)

// ErrUnable reports that this machine cannot run a site.
var ErrUnable = errors.New("this machine cannot run the test node")

// cniPlugins is where Debian keeps the plugins that connect pods.
const cniPlugins = "/usr/lib/cni"

// find finds the programs of a site by their names, or says all that is missing.
func find() (map[string]string, error) {
	var missing []string
	if os.Geteuid() != 0 {
		missing = append(missing, "the rights of root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		missing = append(missing, "/dev/net/tun")
	}
	programs := map[string]string{}
	for name, pack := range map[string]string{
		"containerd": "containerd", "docker-registry": "docker-registry", "ip": "iproute2", "nsenter": "util-linux",
		cniPlugins + "/bridge": "containernetworking-plugins", "gcc": "gcc", "pkg-config": "pkg-config",
	} {
		path, err := exec.LookPath(name)
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s (Debian's package %s)", name, pack))
		}
		programs[filepath.Base(name)] = path
	}
	kubernetes, err := cluster.Find("kube-scheduler", "kubelet")
	if err != nil {
		missing = append(missing, err.Error())
	}
	for name, path := range kubernetes {
		programs[name] = path
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: it lacks %s; make test-node installs and builds what it can", ErrUnable, strings.Join(missing, "; "))
	}
	return programs, nil
}

// buildRunc builds runc: Debian's 1.1 fails under kernels of today, and the module
// beside this package pins one that does not. libseccomp makes it need a C
// compiler; with a warm cache it takes seconds.
func buildRunc(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "runc")
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-tags=seccomp", "-o", path, "github.com/opencontainers/runc")
	cmd.Dir = filepath.Join(sourceDir(), "tools")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building runc (it needs Debian's libseccomp-dev): %w\n%s", err, bytes.TrimSpace(out))
	}
	return path, nil
}

// sourceDir is the folder of this file: what is built here is built from source.
func sourceDir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
