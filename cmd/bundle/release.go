package main

import (
	"errors"
	"io/fs"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/releasefile"
)

// defaultReleaseFile is read when -f is not given.
const defaultReleaseFile = "release.yaml"

func fileFlag() cli.Flag {
	return &cli.StringFlag{Name: "file", Aliases: []string{"f"}, Value: defaultReleaseFile, Usage: "release `FILE`"}
}

// readRelease reads the release file at path.
func readRelease(path string) (*releasefile.File, error) {
	file, err := releasefile.Read(path)
	if errors.Is(err, fs.ErrNotExist) && path == defaultReleaseFile {
		return nil, &flags.UsageError{
			Message: "there is no release.yaml in this folder",
			Hint:    "name the release file with -f FILE",
		}
	}
	return file, err
}
