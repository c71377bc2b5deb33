package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"

	"waybill/internal/files"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/signing"
)

func keygenCommand() *cli.Command {
	return &cli.Command{
		Name: "keygen", Aliases: []string{"generate-key-pair"},
		Usage: "make a key pair to sign with: PREFIX.key and PREFIX.pub",
		Description: `The private key is encrypted with the password in COSIGN_PASSWORD, else the one
typed on the terminal. Existing files are never overwritten. cosign reads both.

Exit codes: 0 done, 1 failed, 2 usage.`,
		Flags: flags.Join([]cli.Flag{
			&cli.StringFlag{Name: "prefix", Value: "cosign", Usage: "`PREFIX` of the two files"},
		}, flags.Common()),
		Action: func(c *cli.Context) error {
			if err := flags.NoArgs(c); err != nil {
				return err
			}
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			pair, err := runKeygen(c.String("prefix"), flags.Talk(c))
			if err != nil {
				return err
			}
			if form == flags.JSON {
				return ui.JSON(c.App.Writer, map[string]string{"private": pair[0], "public": pair[1]})
			}
			_, err = ui.Printf(c.App.Writer, "%s\n%s\n", pair[0], pair[1])
			return err
		},
	}
}

func runKeygen(prefix string, talk *ui.Talk) ([2]string, error) {
	pair := [2]string{prefix + ".key", prefix + ".pub"}
	for _, name := range pair {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return pair, &flags.UsageError{
				Message: fmt.Sprintf("%s exists and is not overwritten", name),
				Hint:    "--prefix NAME makes NAME.key and NAME.pub",
			}
		}
	}
	secret, err := password("the new key", talk)
	if err != nil {
		return pair, err
	}
	private, public, err := signing.GenerateKeyPair(secret)
	if err != nil {
		return pair, fmt.Errorf("making a key pair: %w", err)
	}
	if err := files.Write(pair[0], private, 0o600); err != nil {
		return pair, err
	}
	return pair, files.Write(pair[1], public, 0o644)
}
