package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/near"
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
				unknown := flags.Usagef("%v", err)
				if meant := near.Word(kind, bundle.SchemaKinds()); meant != "" {
					unknown.Hint = fmt.Sprintf("did you mean %s?", meant)
				}
				return unknown
			}
			_, err = c.App.Writer.Write(schema)
			return err
		},
	}
}
