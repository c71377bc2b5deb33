package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// vendored puts the charts a package was packed without into its charts/
// folder, those of the list that it depends on by name.
func (t index) vendored(folder string, tgz []byte) ([]byte, error) {
	unzipped, err := gzip.NewReader(bytes.NewReader(tgz))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	packed := tar.NewWriter(zipped)
	for read := tar.NewReader(unzipped); ; {
		header, err := read.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(read)
		if err != nil {
			return nil, err
		}
		if err := addFile(packed, header.Name, data); err != nil {
			return nil, err
		}
		root, name, _ := strings.Cut(path.Clean(header.Name), "/")
		if name != "Chart.yaml" {
			continue
		}
		if err := t.addDependencies(packed, folder, root, data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(packed.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (t index) addDependencies(packed *tar.Writer, folder, root string, metadata []byte) error {
	var chart struct {
		Dependencies []struct {
			Name string `json:"name"`
		} `json:"dependencies"`
	}
	if err := yaml.Unmarshal(metadata, &chart); err != nil {
		return err
	}
	for _, d := range chart.Dependencies {
		for _, e := range t.Charts {
			if e.Name != d.Name {
				continue
			}
			data, err := os.ReadFile(filepath.Join(folder, e.File))
			if err != nil {
				return err
			}
			if err := addFile(packed, root+"/charts/"+e.File, data); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

func addFile(packed *tar.Writer, name string, data []byte) error {
	if err := packed.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := packed.Write(data)
	return err
}
