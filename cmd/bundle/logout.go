package main

import (
	"context"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
)

func logoutCommand() *cli.Command {
	return &cli.Command{
		Name: "logout", Usage: "forget the login for a registry",
		ArgsUsage: "HOST[/PATH]",
		Description: `Takes the login out of the file, or the credential helper, that login put it
into, in whatever spelling. That there was none is no failure. A login that is
found elsewhere all the same (Helm's file, a shorter path) is named.

Exit codes: 0 done, 2 usage, 4 the credentials file or the helper fails.`,
		Flags: flags.Join(flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			opts, err := loginOptionsFrom(c)
			if err != nil {
				return err
			}
			return runLogout(c.Context, opts, c.App.Writer, flags.Talk(c))
		},
	}
}

// A logoutResult is what `logout` says in JSON.
type logoutResult struct {
	Registry string   `json:"registry"`
	Removed  []string `json:"removed"` // files and helpers
}

func runLogout(ctx context.Context, opts loginOptions, out io.Writer, talk *ui.Talk) error {
	removed, err := opts.client.Logout(ctx, opts.registry)
	if err != nil {
		return err
	}
	if removed.Left != "" {
		talk.Warnf("%s is still logged in to by %s", removed.Registry, removed.Left)
	}
	if opts.form == flags.JSON {
		return ui.JSON(out, logoutResult{removed.Registry, append([]string{}, removed.Places...)})
	}
	if len(removed.Places) == 0 {
		_, err = ui.Printf(out, "%s: there was no login\n", removed.Registry)
		return err
	}
	_, err = ui.Printf(out, "%s: login removed from %s\n", removed.Registry, strings.Join(removed.Places, ", "))
	return err
}
