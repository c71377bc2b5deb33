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

// readSound reads the release file at path and refuses what lint finds in the
// file itself.
func readSound(path string) (*releasefile.File, error) {
	file, err := readRelease(path)
	if err != nil {
		return nil, err
	}
	return file, file.Check()
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
