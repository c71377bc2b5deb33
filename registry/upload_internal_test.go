package registry

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/ref"
	"waybill/internal/registrytest"
)

// What a host does with a second chunk that it need not have got costs one more
// beginning at most, also for the blobs after it: they go up in one then.
func TestUploadToWhatIsNotQuiteDistribution(t *testing.T) {
	refusing := func(status int) func(*http.Request) *registrytest.Fault {
		return func(r *http.Request) *registrytest.Fault {
			if r.Method != http.MethodPatch || strings.HasPrefix(r.Header.Get("Content-Range"), "0-") {
				return nil
			}
			return &registrytest.Fault{Status: status}
		}
	}
	for _, status := range []int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusConflict, http.StatusGone,
		http.StatusUnprocessableEntity, http.StatusNotImplemented,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{Uploads: registrytest.Uploads{LocationQuery: "_state=x"}, Fault: refusing(status)})
			c, err := NewClient(Settings{Retry: 1, IdleTimeout: time.Second, PlainHTTP: true})
			if err != nil {
				t.Fatal(err)
			}
			c.uploads.ours = 1000
			at, err := ref.Parse(reg.Host + "/team/shop")
			if err != nil {
				t.Fatal(err)
			}
			for _, data := range [][]byte{bytes.Repeat([]byte("a"), 3500), bytes.Repeat([]byte("b"), 3500)} {
				desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.FromBytes(data), Size: int64(len(data))}
				if err := c.remote(at).pushBlob(t.Context(), desc, bytes.NewReader(data)); err != nil {
					t.Fatal(err)
				}
				if there, err := c.remote(at).has(t.Context(), desc); err != nil || !there {
					t.Errorf("there is %t, %v", there, err)
				}
			}
			patches := 0
			for _, r := range reg.Requests() {
				if r.Method == http.MethodPatch {
					patches++
				}
			}
			if patches > 4 {
				t.Errorf("%d chunks were tried", patches)
			}
			if n := reg.Sessions(); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
	}
}
