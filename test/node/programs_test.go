//go:build linux

package node

import (
	"errors"
	"strings"
	"testing"
)

func TestAllThatIsMissingIsNamed(t *testing.T) {
	for _, variable := range []string{"WAYBILL_CLUSTER_BIN", "KUBEBUILDER_ASSETS"} {
		t.Setenv(variable, "")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("PATH", "")
	_, err := find()
	if !errors.Is(err, ErrUnable) {
		t.Fatalf("nothing there: %v", err)
	}
	for _, want := range []string{"containerd (Debian's package containerd)", "docker-registry", "iproute2", "util-linux", "kubelet", "make test-node"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}
