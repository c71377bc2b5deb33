package flags

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// What is offered depends on the words before the cursor, wherever flags stand.
func TestComplete(t *testing.T) {
	program := func() Program {
		return Program{
			Name: "bundle", Values: map[string][]string{"level": {"none", "all"}}, Arguments: map[string][]string{"schema": {"lock", "release"}},
			Commands: []*cli.Command{
				{Name: "sign", Flags: Join([]cli.Flag{&cli.StringFlag{Name: "level"}, &cli.StringSliceFlag{Name: "key"}, &cli.BoolFlag{Name: "yes"}})},
				{Name: "schema", Flags: Common()}, {Name: "show", Flags: Common()},
			},
		}
	}
	tests := map[string]struct{ typed, want string }{
		"nothing yet":                {"", "sign schema show help"},
		"a command's begin":          {"s", "sign schema show"},
		"another begin":              {"sc", "schema"},
		"no command":                 {"x", ""},
		"flags":                      {"sign|--", "--help --level --key --yes"},
		"a flag's begin":             {"sign|--l", "--level"},
		"what was given":             {"sign|--yes|--level|all|--key|k|-", "--help --key"},
		"a value":                    {"sign|--level|", "none all"},
		"a value's begin":            {"sign|--level|a", "all"},
		"a value behind =":           {"sign|--level=a", "--level=all"},
		"a value where = is a word":  {"sign|--level|=|a", "all"},
		"right behind the = word":    {"sign|--level|=", "none all"},
		"a value that may be a file": {"sign|--key|", ""},
		"an argument":                {"schema|", "lock release"},
		"only the first argument":    {"schema|lock|", ""},
		"behind flags":               {"schema|-o|json|--quiet|r", "release"},
		"a flag before the command":  {"-o|json|sch", "schema"},
		"the output's form":          {"show|-o|", "text json"},
		"commands to explain":        {"help|sh", "show"},
		"behind --":                  {"sign|--|--", ""},
		"flags without a command":    {"-", "--help"},
		"flags of no command":        {"nonsense|--", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			words := append([]string{"bundle", "__complete"}, strings.Split(tt.typed, "|")...)
			if err := Run(context.Background(), program(), words, nil, &out, &errOut); err != nil || errOut.Len() > 0 {
				t.Fatalf("%v, %q", err, errOut.String())
			}
			if got := strings.Join(strings.Fields(out.String()), " "); got != tt.want {
				t.Errorf("offered %q, want %q", got, tt.want)
			}
		})
	}
}
