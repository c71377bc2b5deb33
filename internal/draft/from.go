package draft

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"waybill/internal/files"
)

// An UnknownError reports a file that no draft can be made from.
type UnknownError struct {
	Path   string
	Reason string
}

func (e *UnknownError) Error() string { return fmt.Sprintf("%q: %s", e.Path, e.Reason) }

// UsageHint says what a draft can be made from.
func (e *UnknownError) UsageHint() string {
	return "--from takes the folder or Chart.yaml of a chart with dependencies, or what `helm list -A -o json` prints"
}

// From makes a draft of the file or chart folder at path. What it is, its content
// says. It returns an [*UnknownError] for what it cannot be made from, and a
// [*files.Error] for what cannot be read.
func From(path string) (*Draft, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "Chart.yaml")
	}
	data, err := files.Read(path)
	if err != nil {
		return nil, err
	}
	return FromText(path, data)
}

// FromText is [From] for what was read already; path says where it lies and may
// be "-".
func FromText(path string, data []byte) (*Draft, error) {
	if json.Valid(data) && bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		return fromHelmList(path, data)
	}
	var chart chartFile
	if err := yaml.Unmarshal(data, &chart); err != nil {
		return nil, &UnknownError{Path: path, Reason: "is neither YAML nor a JSON list: " + err.Error()}
	}
	switch {
	case chart.Kind == "Release":
		return nil, &UnknownError{Path: path, Reason: "is a release file already"}
	case chart.Name == "" || chart.Version == "":
		return nil, &UnknownError{Path: path, Reason: "is no Chart.yaml: it has no name and version"}
	}
	return fromChart(path, chart)
}
