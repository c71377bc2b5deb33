// Score measures how well the images of charts are found, against a list made
// by hand: a folder of charts with an index.yaml that says, for each, which
// images it uses and which texts only look like some. It prints a line a chart,
// then what was missed and what was found and is no image, by name.
//
//	go run ./test/score FOLDER
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: score FOLDER")
		os.Exit(2)
	}
	total, err := run(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "score:", err)
		os.Exit(1)
	}
	if !total.good() {
		os.Exit(1)
	}
}

func run(folder string) (*score, error) {
	data, err := os.ReadFile(filepath.Join(folder, "index.yaml"))
	if err != nil {
		return nil, err
	}
	var truth index
	if err := yaml.Unmarshal(data, &truth); err != nil {
		return nil, err
	}
	total := &score{}
	for _, entry := range truth.Charts {
		if entry.Render.Defaults == "only with its dependencies" {
			fmt.Printf("%-28s not rendered: its dependencies are not in it\n", entry.Name)
			continue
		}
		one, err := judge(folder, entry)
		if err != nil {
			fmt.Printf("%-28s %v\n", entry.Name, err)
			continue
		}
		one.print(entry.Name)
		total.add(one)
	}
	total.print("all")
	total.printLists()
	return total, nil
}

// index is the list made by hand, as far as it is read here.
type index struct {
	Charts []entry `json:"charts"`
}

type entry struct {
	File   string `json:"file"`
	Name   string `json:"name"`
	Render struct {
		Defaults string `json:"defaults"`
		Set      any    `json:"set"`
	} `json:"render"`
	Images []listed `json:"images"`
}

type listed struct {
	Canonical    string `json:"canonical"`
	Scope        string `json:"scope"`
	Discoverable *bool  `json:"discoverable"`
	Found        []struct {
		Where string `json:"where"`
	} `json:"found"`
}
