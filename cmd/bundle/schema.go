package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/near"
	"waybill/registry"
)

func schemaCommand() *cli.Command {
	return &cli.Command{
		Name: "schema", Usage: "print the JSON Schema of a document: release, lock, site, policy or inventory",
		ArgsUsage: "KIND",
		Flags:     flags.Common(),
		Action: func(c *cli.Context) error {
			kind, err := flags.OneArg(c, "kind of document")
			if err != nil {
				return err
			}
			if !slices.Contains(schemaKinds(), kind) {
				unknown := flags.Usagef("no schema %q; there are %s", kind, strings.Join(schemaKinds(), ", "))
				if meant := near.Word(kind, schemaKinds()); meant != "" {
					unknown.Hint = fmt.Sprintf("did you mean %s?", meant)
				}
				return unknown
			}
			schema, err := schemaOf(kind)
			if err != nil {
				return err
			}
			_, err = c.App.Writer.Write(schema)
			return err
		},
	}
}

// schemaKinds are the documents whose schema is printed, sorted.
func schemaKinds() []string {
	return slices.Sorted(slices.Values(append(bundle.SchemaKinds(), "inventory")))
}

func schemaOf(kind string) ([]byte, error) {
	if kind == "inventory" {
		return registry.InventorySchema()
	}
	return bundle.Schema(kind)
}
