package bundle

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that reads bundles links no Helm, no cosign, no Kubernetes client
// and no registry client.
func TestLinksOnlyWhatAFormatNeeds(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, dep := range strings.Fields(string(out)) {
		for _, heavy := range []string{"helm.sh/", "github.com/sigstore/", "k8s.io/", "net/http", "oras.land/oras-go/v2/registry/remote", "waybill/registry", "waybill/charts", "waybill/signing", "waybill/rollout"} {
			if strings.HasPrefix(dep, heavy) {
				t.Errorf("it links %s", dep)
			}
		}
	}
}
