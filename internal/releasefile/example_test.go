package releasefile_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"waybill/bundle"
	"waybill/internal/releasefile"
)

// A release file says by itself, without a network, what its lock lacks.
func ExampleRead() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "release.yaml")
	text := `apiVersion: waybill/v1
kind: Release
name: shop
version: 1.1.0
components:
  - name: web
    chart: {repository: https://charts.example.com, name: web, version: ~2.0}
    namespace: shop
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		panic(err)
	}
	file, err := releasefile.Read(path)
	if err != nil {
		panic(err)
	}
	lock := &bundle.Lock{Packed: bundle.PackedCharts, Release: bundle.LockedRelease{Name: "shop", Version: "1.0.0"}, Charts: []bundle.LockedChart{
		{Component: "web", Name: "web", Version: "1.9.4", Source: "https://charts.example.com/web"},
	}}
	differences, err := file.Compare(context.Background(), lock, releasefile.ResolveOptions{}, bundle.LockOptions{})
	if err != nil {
		panic(err)
	}
	for _, d := range differences {
		fmt.Println(d)
	}
	// Output:
	// the version is 1.1.0, locked is 1.0.0
	// component web: version ~2.0 of chart web is asked for, locked is 1.9.4
}
