// Package flags is what the command lines of both programs have in common:
// flags that may stand anywhere, one name for each in the environment, and
// the groups of flags that open a registry, state a policy or shape the
// output.
//
// It turns words into the settings of the rooms and does no work itself. The
// doors to try first are [Run] and the groups [Registry], [Policy] and
// [Common].
package flags

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"
)

// A Program is one of the two command lines.
type Program struct {
	Name     string // "bundle" or "apply"; what it was called by is printed
	Usage    string
	Version  string
	Commands []*cli.Command
	// Fallback names the command for a first word that is none, or "".
	Fallback func(word string) string
}

// Run parses args and runs the command they name. Results go to out; usage
// errors come back as [*UsageError] and print nothing.
func Run(ctx context.Context, p Program, args []string, in io.Reader, out, errOut io.Writer) error {
	app := &cli.App{
		Name: CalledBy(args), Usage: p.Usage, Version: p.Version,
		HideVersion: true,
		Reader:      in, Writer: out, ErrWriter: errOut,
		Commands:                  p.Commands,
		ExitErrHandler:            func(*cli.Context, error) {}, // the program's main exits, nobody else
		DisableSliceFlagSeparator: true,                         // a value may hold a comma
		CustomAppHelpTemplate:     appHelp,
	}
	for _, cmd := range app.Commands {
		prepare(cmd)
	}
	app.Commands = append(app.Commands, helpCommand())
	ordered, err := Order(app, args, p.Fallback)
	if err != nil {
		return err
	}
	return app.RunContext(ctx, ordered)
}

// CalledBy returns the name the program was called by.
func CalledBy(args []string) string {
	return strings.TrimSuffix(filepath.Base(args[0]), ".exe")
}

// prepare gives a command what the library does not hand down: usage errors
// as values, no hidden "help" argument, and an environment name per flag.
func prepare(cmd *cli.Command) {
	cmd.OnUsageError = func(_ *cli.Context, err error, _ bool) error {
		return &UsageError{Message: err.Error()}
	}
	cmd.HideHelpCommand = true
	cmd.UseShortOptionHandling = false
	cmd.CustomHelpTemplate = commandHelp
	for _, f := range cmd.Flags {
		setEnv(f)
	}
}

func helpCommand() *cli.Command {
	return &cli.Command{
		Name: "help", Aliases: []string{"h"}, Usage: "list the commands, or explain one", ArgsUsage: "[COMMAND]",
		HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return cli.ShowAppHelp(c)
			}
			if c.App.Command(c.Args().First()) == nil {
				return unknownCommand(c.App, c.Args().First())
			}
			return cli.ShowCommandHelp(c, c.Args().First())
		},
	}
}

// EnvName is the environment name of a flag: WAYBILL_ and the flag in
// capitals. `sign --key`, a private key, is given its own by its command.
func EnvName(flag string) string {
	return "WAYBILL_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func setEnv(f cli.Flag) {
	switch f := f.(type) {
	case *cli.StringFlag:
		f.EnvVars = orDefault(f.EnvVars, f.Name)
	case *cli.StringSliceFlag:
		f.EnvVars = orDefault(f.EnvVars, f.Name)
	case *cli.BoolFlag:
		f.EnvVars = orDefault(f.EnvVars, f.Name)
	case *cli.IntFlag:
		f.EnvVars = orDefault(f.EnvVars, f.Name)
	case *cli.DurationFlag:
		f.EnvVars = orDefault(f.EnvVars, f.Name)
	default:
		panic("flags: " + f.Names()[0] + " is of a kind without an environment name")
	}
}

func orDefault(env []string, name string) []string {
	if len(env) > 0 {
		return env
	}
	return []string{EnvName(name)}
}

const appHelp = `{{.Name}}: {{.Usage}}

Usage: {{.Name}} COMMAND [ARGUMENT…] [FLAG…]

Commands:{{range .VisibleCommands}}
  {{join .Names ", "}}{{"\t"}}{{.Usage}}{{end}}

` + "`{{.Name}} help COMMAND`" + ` explains one. Flags may stand anywhere; -- ends them.
Every flag has an environment name: WAYBILL_ and the flag in capitals.
`

const commandHelp = `{{.HelpName}}: {{.Usage}}

Usage: {{.HelpName}}{{if .ArgsUsage}} {{.ArgsUsage}}{{end}} [FLAG…]
{{if .Aliases}}
Also called: {{join .Aliases ", "}}
{{end}}{{if .Description}}
{{.Description}}
{{end}}
Flags:{{range .VisibleFlags}}
  {{.}}{{end}}
`
