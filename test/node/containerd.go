//go:build linux

package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
)

// containerdSocket is where containerd listens, under the site's own /run.
const containerdSocket = "/run/containerd/containerd.sock"

// pause is the image that holds a pod's namespaces, the node's own and no part of
// what runs on it.
const pause = Registry + "/node/pause:1"

// containerdConfig: containerd 1.6, docs/cri/config.md. Its folders are its usual
// ones, which in the site are the site's.
func containerdConfig(dir, runc string) string {
	return fmt.Sprintf(`version = 2
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true # a container around us may forbid more
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %q
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = %q
`, containerdSocket, pause, cniPlugins, filepath.Join(dir, "cni"), filepath.Join(dir, "certs.d"), runc)
}

// cniConfig connects pods with the machine and with what is outside, where they
// are seen under their own addresses.
const cniConfig = `{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "` + podSubnet + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "loopback"}]}
`

// listens asks whether somebody listens at a socket.
func listens(socket string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// Pulls are the references that the node was asked to pull, in order and with
// repetitions, from containerd's log: all but the pause image.
func (s *Site) Pulls() ([]string, error) {
	log, err := os.ReadFile(s.path("cluster/containerd.log"))
	if err != nil {
		return nil, fmt.Errorf("reading what was pulled: %w", err)
	}
	var pulls []string
	for _, match := range regexp.MustCompile(`msg="PullImage \\"([^"\\]+)\\""`).FindAllSubmatch(log, -1) {
		pulls = append(pulls, string(match[1]))
	}
	return pulls, nil
}
