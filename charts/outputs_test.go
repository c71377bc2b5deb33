package charts

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// A folder is refused when it would pack what is written from it.
func TestResolveOutputs(t *testing.T) {
	const text = "-- Chart.yaml --\napiVersion: v2\nname: shop\nversion: 1.0.0\n-- templates/a.yaml --\na: b\n-- .helmignore --\n*.tar\nout/\n-- out/keep --\n"
	dir := writeFolder(t, text)
	for output, refused := range map[string]bool{
		"release.lock.yaml":       true,
		"templates/lock.yaml":     true,
		"bundle.tar":              false, // ignored
		"out/bundle":              false, // in a folder that is ignored
		"../release.lock.yaml":    false,
		"../elsewhere/lock.yaml":  false,
		"absent/folder/lock.yaml": false, // nothing can be written there
	} {
		_, err := Resolve(context.Background(), filepath.Dir(dir), Source{Path: filepath.Base(dir), Outputs: []string{filepath.Join(dir, output)}}, ResolveOptions{})
		var source *SourceError
		switch {
		case refused && (!errors.As(err, &source) || !strings.Contains(err.Error(), output)):
			t.Errorf("%s: %v", output, err)
		case !refused && err != nil:
			t.Errorf("%s: %v", output, err)
		}
	}
}
