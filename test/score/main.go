// Score measures how well the images of charts are found, against a list made
// by hand: a folder of charts with an index.yaml that says, for each, which
// images it uses and which texts only look like some. It prints a line a chart,
// then what was missed and what was found and is no image, by name. It fails
// when that is not good enough.
//
//	go run ./test/score [-candidates] FOLDER
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

func main() {
	candidatesToo := flag.Bool("candidates", false, "print the candidates too")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: score [-candidates] FOLDER")
		os.Exit(2)
	}
	total, err := run(flag.Arg(0), *candidatesToo)
	if err != nil {
		fmt.Fprintln(os.Stderr, "score:", err)
		os.Exit(1)
	}
	if !total.good() {
		os.Exit(1)
	}
}

func run(folder string, candidatesToo bool) (*score, error) {
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
		one := truth.judge(folder, entry)
		one.print(entry.Name)
		total.add(one)
	}
	total.print("all")
	total.printLists(candidatesToo)
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
