package flags

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

func testApp() *cli.App {
	return &cli.App{Name: "bundle", Commands: []*cli.Command{
		{Name: "build", Aliases: []string{"create"}, Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "tag", Aliases: []string{"t"}}, &cli.BoolFlag{Name: "locked"}, &cli.IntFlag{Name: "retry"},
		}},
		{Name: "verify", Flags: []cli.Flag{&cli.StringSliceFlag{Name: "key"}}},
		{Name: "version"},
	}}
}

func TestOrder(t *testing.T) {
	tests := map[string]struct{ args, want []string }{
		"flags after":            {[]string{"bundle", "build", "here", "-t", "a", "--locked"}, []string{"bundle", "build", "-t", "a", "--locked", "--", "here"}},
		"flags before":           {[]string{"bundle", "-t", "a", "--locked", "build", "here"}, []string{"bundle", "build", "-t", "a", "--locked", "--", "here"}},
		"flags between":          {[]string{"bundle", "build", "--tag=a", "here", "--locked", "there"}, []string{"bundle", "build", "--tag=a", "--locked", "--", "here", "there"}},
		"a value with a comma":   {[]string{"bundle", "build", "-t", "a,b"}, []string{"bundle", "build", "-t", "a,b", "--"}},
		"a negative value":       {[]string{"bundle", "build", "--retry", "-1"}, []string{"bundle", "build", "--retry", "-1", "--"}},
		"-- ends flags":          {[]string{"bundle", "build", "--", "--locked"}, []string{"bundle", "build", "--", "--locked"}},
		"- is a word":            {[]string{"bundle", "build", "-"}, []string{"bundle", "build", "--", "-"}},
		"an alias":               {[]string{"bundle", "create", "x"}, []string{"bundle", "build", "--", "x"}},
		"version as a flag":      {[]string{"bundle", "--version"}, []string{"bundle", "version"}},
		"no word asks for help":  {[]string{"bundle"}, []string{"bundle", "help"}},
		"help after the command": {[]string{"bundle", "build", "-h"}, []string{"bundle", "build", "-h", "--"}},
		"the fall-back command":  {[]string{"bundle", "./x"}, []string{"bundle", "verify", "--", "./x"}},
	}
	fallback := func(word string) string {
		if word == "./x" {
			return "verify"
		}
		return ""
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Order(testApp(), tt.args, fallback)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOrderRefuses(t *testing.T) {
	tests := map[string]struct {
		args          []string
		message, hint string
	}{
		"a misspelt command":            {[]string{"bundle", "verfy"}, `unknown command "verfy"`, "did you mean `bundle verify`?"},
		"a command like no other":       {[]string{"bundle", "teleport"}, `unknown command "teleport"`, "`bundle help` lists the commands"},
		"a misspelt flag":               {[]string{"bundle", "build", "--loked"}, `unknown flag "--loked"`, "did you mean --locked?"},
		"a flag like no other":          {[]string{"bundle", "build", "--zzzzzzzz"}, `unknown flag "--zzzzzzzz"`, "words after -- are taken as they are"},
		"another command's flag":        {[]string{"bundle", "verify", "--locked"}, "flag --locked is not one of `bundle verify` (it belongs to build)", "`bundle help verify` lists its flags"},
		"a value flag at the end":       {[]string{"bundle", "verify", "--key"}, "flag --key needs a value", ""},
		"a value flag before a flag":    {[]string{"bundle", "build", "-t", "--locked"}, "flag -t needs a value", ""},
		"only a flag":                   {[]string{"bundle", "--locked"}, "no command given, only flag --locked", "`bundle help` lists the commands"},
		"a command after -- is no word": {[]string{"bundle", "--", "biuld"}, `unknown command "biuld"`, "did you mean `bundle build`?"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Order(testApp(), tt.args, nil)
			var usage *UsageError
			if !errors.As(err, &usage) {
				t.Fatalf("got %v, want a usage error", err)
			}
			if usage.Message != tt.message || usage.Hint != tt.hint {
				t.Errorf("got %q, hint %q", usage.Message, usage.Hint)
			}
		})
	}
}

func TestEnvName(t *testing.T) {
	if got := EnvName("ca-file"); got != "WAYBILL_CA_FILE" {
		t.Errorf("got %s", got)
	}
}
