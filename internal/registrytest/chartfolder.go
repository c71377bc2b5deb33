package registrytest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// ChartFolder serves the .tgz files of a folder as a chart repository: for
// [Options.Handler]. The index is made anew for every request, so that a test can
// publish, replace and remove charts as it goes.
func ChartFolder(dir string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		index, err := chartIndex(dir)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(index)
	})
	mux.Handle("GET /", http.FileServer(http.Dir(dir)))
	return mux
}

// chartIndex writes an index as helm repo index does, less the times.
func chartIndex(dir string) ([]byte, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil {
		return nil, err
	}
	entries := map[string][]map[string]any{}
	for _, file := range found {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		entry, err := chartFile(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		sum := sha256.Sum256(data)
		entry["urls"], entry["digest"] = []string{filepath.Base(file)}, hex.EncodeToString(sum[:])
		name := fmt.Sprint(entry["name"])
		entries[name] = append(entries[name], entry)
	}
	return yaml.Marshal(map[string]any{"apiVersion": "v1", "entries": entries})
}

// chartFile reads Chart.yaml of a packed chart.
func chartFile(tgz []byte) (map[string]any, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(tgz))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(unzip); ; {
		header, err := r.Next()
		if err != nil {
			return nil, err
		}
		if dir, base := path.Split(header.Name); base != "Chart.yaml" || path.Dir(path.Clean(dir)) != "." {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		entry := map[string]any{}
		return entry, yaml.Unmarshal(data, &entry)
	}
}
