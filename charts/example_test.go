package charts_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"waybill/charts"
)

func ExampleResolve() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{
		"Chart.yaml":          "apiVersion: v2\nname: hello\nversion: 1.2.3\n",
		"values.yaml":         "greeting: Hello\n",
		"templates/text.yaml": "kind: ConfigMap\ndata: {text: {{ .Values.greeting }}}\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			fmt.Println(err)
			return
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			fmt.Println(err)
			return
		}
	}

	chart, err := charts.Resolve(context.Background(), dir, charts.Source{Path: "."}, charts.ResolveOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	values, err := charts.Merge(charts.Layer{Name: "--set", Set: "greeting=Ahoy"})
	if err != nil {
		fmt.Println(err)
		return
	}
	rendered, err := chart.Render(charts.RenderOptions{KubeVersion: "1.33.0", Values: values})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(chart.Name(), chart.Version(), chart.Content)
	fmt.Print(rendered.Manifest)
	// Output:
	// hello 1.2.3 sha256:09ef72f1badfbe73b5cc48d9151f01b7df417d23b358a62ebb53d71beec8f1b0
	// ---
	// # Source: hello/templates/text.yaml
	// kind: ConfigMap
	// data: {text: Ahoy}
}
