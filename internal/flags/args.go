package flags

import (
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"waybill/internal/ui"
)

// A Form is the form a result is printed in.
type Form string

// The forms of --output.
const (
	Text Form = "text"
	JSON Form = "json"
)

// Output returns the form asked for with --output.
func Output(c *cli.Context) (Form, error) {
	switch form := Form(c.String("output")); form {
	case Text, JSON:
		return form, nil
	default:
		return "", &UsageError{
			Message: fmt.Sprintf("--output %q is not a form of the result", form),
			Hint:    "the forms are text and json",
		}
	}
}

// Talk returns the commentary of the program as the flags want it, the same one
// for the whole run.
func Talk(c *cli.Context) *ui.Talk {
	run := c.App.Metadata[talkKey].(*talking)
	if run.talk == nil {
		run.talk = ui.NewTalk(c.App.ErrWriter, c.App.Name, ui.TalkOptions{
			Quiet: c.Bool("quiet"), Now: run.now, Heartbeat: run.heartbeat,
			Bars: !c.Bool("debug") && ui.CanDraw(c.App.ErrWriter, os.Getenv),
		})
	}
	return run.talk
}

// talking is what a run keeps of its talk.
type talking struct {
	talk *ui.Talk
	now  func() time.Time

	heartbeat time.Duration
}

const talkKey = "talk"

// NoArgs refuses arguments.
func NoArgs(c *cli.Context) error {
	if c.Args().Present() {
		return &UsageError{
			Message: fmt.Sprintf("`%s %s` takes no argument, got %q", c.App.Name, c.Command.Name, c.Args().First()),
			Hint:    fmt.Sprintf("`%s help %s` says what it takes", c.App.Name, c.Command.Name),
		}
	}
	return nil
}

// OneArg returns the only argument, which is called what in the error when it
// is absent or not alone.
func OneArg(c *cli.Context, what string) (string, error) {
	if c.Args().Len() != 1 {
		return "", &UsageError{
			Message: fmt.Sprintf("`%s %s` takes one %s, got %d arguments", c.App.Name, c.Command.Name, what, c.Args().Len()),
			Hint:    fmt.Sprintf("`%s help %s` says what it takes", c.App.Name, c.Command.Name),
		}
	}
	return c.Args().First(), nil
}
