package main

import (
	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
)

func imagesCommand() *cli.Command {
	return &cli.Command{
		Name: "images", Usage: "list the container images of a release (with a later version)",
		ArgsUsage: "[LOCATION]",
		Flags:     flags.Join([]cli.Flag{fileFlag()}, flags.Common()),
		Action: func(*cli.Context) error {
			return &flags.UsageError{
				Message: "container images come with a later version of waybill; this one packs charts only",
			}
		},
	}
}
