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
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// A Program is one of the two command lines.
type Program struct {
	Name     string // "bundle" or "apply"; what it was called by is printed
	Usage    string
	Version  string
	Commands []*cli.Command
	// Later are the commands and flags ("--strict") that a later version has, so
	// that who knows them hears that.
	Later []string
	// Words are other tools' words for commands, those of Later included; several
	// commands are separated by a comma and a space.
	Words map[string]string
	// Values are what flags may be set to, by flag, and Arguments what the first
	// argument of a command may be, for completion; those left out may be anything.
	Values, Arguments map[string][]string
	// Now is the clock that elapsed times are read from.
	Now func() time.Time
	// Heartbeat is the option of that name of the talk.
	Heartbeat time.Duration
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
		Metadata:                  map[string]any{talkKey: &talking{now: p.Now, heartbeat: p.Heartbeat}},
	}
	for _, cmd := range app.Commands {
		prepare(cmd)
		cmd.Action = watched(cmd)
	}
	app.Commands = append(app.Commands, helpCommand())
	if len(args) > 1 && args[1] == completeWord {
		return p.complete(out, app, args[2:])
	}
	ordered, err := Order(app, args, p.Fallback)
	if err != nil {
		return p.explain(app.Name, err)
	}
	return app.RunContext(ctx, ordered)
}

// explain says of a word that is not known here what is known of it: that a
// later version has it, or which of our words it is.
func (p Program) explain(name string, err error) error {
	var usage *UsageError
	if !errors.As(err, &usage) || usage.unknown == "" {
		return err
	}
	word := usage.unknown
	ours, foreign := p.Words[word]
	if !foreign {
		ours = word
	}
	switch later := slices.Contains(p.Later, ours); {
	case later && strings.HasPrefix(word, "-"):
		return Usagef("flag %s comes with a later version of waybill", word)
	case later && foreign:
		return Usagef("unknown command %q; it is `%s %s`, which comes with a later version of waybill", word, name, ours)
	case later:
		return Usagef("`%s %s` comes with a later version of waybill", name, word)
	case foreign:
		return &UsageError{Message: usage.Message, Hint: fmt.Sprintf("did you mean `%s %s`?", name, strings.ReplaceAll(ours, ", ", "` or `"+name+" "))}
	}
	return err
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

// watched is the command's action, said to be at work when it is silent long. A
// command that serves is at rest and not at work.
func watched(cmd *cli.Command) cli.ActionFunc {
	if cmd.Name == "serve" || cmd.Name == "follow" {
		return cmd.Action
	}
	action := cmd.Action
	return func(c *cli.Context) error {
		p := Talk(c).Running(fmt.Sprintf("`%s %s`", c.App.Name, c.Command.Name))
		defer p.Close()
		return action(c)
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
			if c.Args().Len() > 1 {
				return Usagef("`%s help` takes one command, got %d words", c.App.Name, c.Args().Len())
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
		f.EnvVars = notEmpty(orDefault(f.EnvVars, f.Name))
	case *cli.StringSliceFlag:
		f.EnvVars = notEmpty(orDefault(f.EnvVars, f.Name))
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

// notEmpty leaves out names that are set to nothing, which is how a shell
// unsets for one command; the library would take the empty text for a value.
func notEmpty(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(name string) bool {
		value, set := os.LookupEnv(name)
		return set && value == ""
	})
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
