package registrytest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// refusesNested answers the push of an index that holds an index, and reports
// whether it did.
func refusesNested(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
		return false
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
	r.Body = io.NopCloser(bytes.NewReader(data))
	var index ocispec.Index
	if err != nil || json.Unmarshal(data, &index) != nil {
		return false
	}
	for _, desc := range index.Manifests {
		if desc.MediaType == ocispec.MediaTypeImageIndex || strings.HasSuffix(desc.MediaType, ".manifest.list.v2+json") {
			fail(w, http.StatusBadRequest, "MANIFEST_INVALID", "manifest list entries must be image manifests")
			return true
		}
	}
	return false
}
