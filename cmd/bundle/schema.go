package main

import (
	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/flags"
)

func schemaCommand() *cli.Command {
	return &cli.Command{
		Name: "schema", Usage: "print the JSON Schema of a file: release, lock, site or policy",
		ArgsUsage: "KIND",
		Flags:     flags.Common(),
		Action: func(c *cli.Context) error {
			kind, err := flags.OneArg(c, "kind of file")
			if err != nil {
				return err
			}
			schema, err := bundle.Schema(kind)
			if err != nil {
				return &flags.UsageError{Message: err.Error(), Hint: "the kinds are release, lock, site and policy"}
			}
			_, err = c.App.Writer.Write(schema)
			return err
		},
	}
}
