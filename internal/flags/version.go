package flags

import (
	"fmt"
	"runtime/debug"

	"github.com/urfave/cli/v2"

	"waybill/internal/ui"
)

// Version is the version of both programs.
const Version = "0.1.0"

// VersionCommand prints "waybill <program> <version>".
func VersionCommand(program string) *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version",
		Flags: Common(),
		Action: func(c *cli.Context) error {
			if err := NoArgs(c); err != nil {
				return err
			}
			form, err := Output(c)
			if err != nil {
				return err
			}
			if form == JSON {
				return ui.JSON(c.App.Writer, map[string]string{"program": program, "version": Version, "go": goVersion()})
			}
			_, err = fmt.Fprintf(c.App.Writer, "waybill %s %s\n", program, Version)
			return err
		},
	}
}

func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.GoVersion
	}
	return ""
}
