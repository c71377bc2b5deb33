package script

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
)

// A RunFunc is a program's run.
type RunFunc func(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int

// CheckCommands holds every command of a program against what all have in
// common: help in any place, flags in any place, an environment name for each
// flag, exit 2 and what was meant for a misspelt flag, nothing on stdout then.
func CheckCommands(t *testing.T, program flags.Program, run RunFunc) {
	t.Helper()
	for _, cmd := range program.Commands {
		t.Run(cmd.Name, func(t *testing.T) {
			checkHelp(t, program.Name, cmd, run)
			checkMisspeltFlag(t, program.Name, cmd, run)
			checkFlagPlaces(t, program.Name, cmd, run)
		})
	}
	t.Run("completion", func(t *testing.T) { checkCompletion(t, program, run) })
	t.Run("one kind of flag for a name", func(t *testing.T) { checkKinds(t, program) })
}

// checkCompletion holds what completion offers against what the commands take.
func checkCompletion(t *testing.T, program flags.Program, run RunFunc) {
	for name, values := range program.Values {
		f := flagNamed(program, name)
		if f == nil {
			t.Errorf("completion knows values of --%s, which no command has", name)
			continue
		}
		for _, value := range values {
			if !strings.Contains(f.Usage, value) {
				t.Errorf("completion offers --%s %s, of which its help does not tell: %s", name, value, f.Usage)
			}
		}
	}
	for _, cmd := range program.Commands {
		_, out, errOut := call(run, program.Name, "__complete", cmd.Name, "--")
		for _, f := range cmd.Flags {
			if !strings.Contains(out, "--"+f.Names()[0]+"\n") || errOut != "" {
				t.Errorf("completion does not offer --%s of %s: %q, %q", f.Names()[0], cmd.Name, out, errOut)
			}
		}
		if _, out, _ := call(run, program.Name, "__complete", cmd.Name[:2]); !strings.Contains(out, cmd.Name+"\n") {
			t.Errorf("completion does not offer %s: %q", cmd.Name, out)
		}
	}
}

func flagNamed(program flags.Program, name string) *cli.StringFlag {
	for _, cmd := range program.Commands {
		for _, f := range cmd.Flags {
			if s, ok := f.(*cli.StringFlag); ok && s.Name == name {
				return s
			}
		}
	}
	return nil
}

func call(run RunFunc, args ...string) (code int, out, errOut string) {
	var stdout, stderr bytes.Buffer
	code = run(context.Background(), args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func checkHelp(t *testing.T, name string, cmd *cli.Command, run RunFunc) {
	for _, args := range [][]string{{name, cmd.Name, "--help"}, {name, "--help", cmd.Name}, {name, "help", cmd.Name}, {name, cmd.Name, "-h"}} {
		code, out, errOut := call(run, args...)
		if code != 0 || !strings.Contains(out, "Usage: "+name+" "+cmd.Name) || errOut != "" {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, out, errOut)
		}
	}
	_, out, _ := call(run, name, "help", cmd.Name)
	for _, f := range cmd.Flags {
		long := f.Names()[0]
		if !strings.Contains(out, "--"+long) || !strings.Contains(out, flags.EnvName(long)) && !strings.Contains(out, "WAYBILL_SIGNING_KEY") {
			t.Errorf("the help of %s does not tell --%s with its environment name", cmd.Name, long)
		}
	}
}

func checkMisspeltFlag(t *testing.T, name string, cmd *cli.Command, run RunFunc) {
	for _, f := range cmd.Flags {
		word := "--" + f.Names()[0]
		for _, args := range [][]string{{name, cmd.Name, word + "x"}, {name, word + "x", cmd.Name}, {name, cmd.Name, "some", word + "x", "words"}} {
			code, out, errOut := call(run, args...)
			if code != 2 || out != "" || !strings.Contains(errOut, "did you mean "+word+"?") {
				t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, out, errOut)
			}
		}
	}
}

// checkFlagPlaces gives the output flag a wrong value in every place: that it
// is found wrong shows that it was read.
func checkFlagPlaces(t *testing.T, name string, cmd *cli.Command, run RunFunc) {
	if !slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return f.Names()[0] == "output" }) {
		t.Errorf("%s has no --output", cmd.Name)
		return
	}
	for _, args := range [][]string{
		{name, "-o", "xml", cmd.Name, "./a", "b"}, {name, cmd.Name, "-o", "xml", "./a", "b"},
		{name, cmd.Name, "./a", "--output=xml", "b"}, {name, cmd.Name, "./a", "b", "--output", "xml"},
	} {
		code, out, errOut := call(run, args...)
		if code != 2 || out != "" || errOut == "" || strings.Contains(errOut, "unknown flag") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", args, code, out, errOut)
		}
	}
}

func checkKinds(t *testing.T, program flags.Program) {
	kinds := map[string]bool{}
	for _, cmd := range program.Commands {
		for _, f := range cmd.Flags {
			_, isBool := f.(*cli.BoolFlag)
			for _, name := range f.Names() {
				if known, ok := kinds[name]; ok && known != isBool {
					t.Errorf("--%s is a switch in one command and takes a value in another", name)
				}
				kinds[name] = isBool
			}
		}
	}
}
