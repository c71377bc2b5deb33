package flags

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// completeWord is what shells call the program with, before the words of the
// command line that is being typed. The library's own way stops at the first
// argument and knows no values.
const completeWord = "__complete"

// complete writes what the last of the words may become, a line each: the words
// are those after the program up to the cursor. Nothing leaves it to the shell,
// which then offers files.
func (p Program) complete(out io.Writer, app *cli.App, words []string) error {
	for _, candidate := range p.candidates(app, words) {
		if _, err := fmt.Fprintln(out, candidate); err != nil {
			return err
		}
	}
	return nil
}

func (p Program) candidates(app *cli.App, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	typed, current := words[:len(words)-1], words[len(words)-1]
	if current == "=" { // some shells break words there
		current = ""
	} else if n := len(typed); n > 0 && typed[n-1] == "=" {
		typed = typed[:n-1]
	}
	line := readTyped(app, typed)
	switch {
	case line.ended:
		return nil
	case line.pending != "":
		return withPrefix(p.values(line.pending), current)
	case strings.HasPrefix(current, "-"):
		return p.flagCandidates(line, current)
	case line.command == nil:
		return withPrefix(commandNames(app), current)
	case line.arguments == 0:
		return withPrefix(p.arguments(app, line.command.Name), current)
	}
	return nil
}

// typed is what is known of the words before the one that is completed.
type typed struct {
	command   *cli.Command // nil before there is one
	pending   string       // the flag whose value comes next
	arguments int          // of the command
	ended     bool         // "--" was typed
	given     map[string]bool
}

func readTyped(app *cli.App, words []string) typed {
	line, takes := typed{given: map[string]bool{}}, valueFlags(app)
	for _, word := range words {
		switch {
		case line.pending != "":
			line.pending = ""
		case word == "--":
			line.ended = true
			return line
		case strings.HasPrefix(word, "-") && word != "-":
			name, _, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
			line.given[name] = true
			if takes[name] && !joined {
				line.pending = name
			}
		case line.command == nil:
			if line.command = app.Command(word); line.command == nil {
				line.ended = true // nothing is known of what follows
			}
		default:
			line.arguments++
		}
	}
	return line
}

// flagCandidates are the flags of the command, or, behind a =, the values of one.
func (p Program) flagCandidates(line typed, current string) []string {
	if name, value, joined := strings.Cut(current, "="); joined {
		var found []string
		for _, v := range withPrefix(p.values(strings.TrimLeft(name, "-")), value) {
			found = append(found, name+"="+v)
		}
		return found
	}
	found := []string{"--help"}
	if line.command != nil {
		for _, f := range line.command.Flags {
			_, many := f.(*cli.StringSliceFlag)
			if many || !slices.ContainsFunc(f.Names(), func(name string) bool { return line.given[name] }) {
				found = append(found, "--"+f.Names()[0])
			}
		}
	}
	return withPrefix(found, current)
}

// values are what a flag may be set to, nil where that is anything.
func (p Program) values(flag string) []string {
	if flag == "output" || flag == "o" {
		return []string{string(Text), string(JSON)}
	}
	return p.Values[flag]
}

// arguments are what a command's first argument may be, nil where that is
// anything.
func (p Program) arguments(app *cli.App, command string) []string {
	if command == "help" {
		return commandNames(app)
	}
	return p.Arguments[command]
}

func commandNames(app *cli.App) []string {
	var names []string
	for _, cmd := range app.Commands {
		names = append(names, cmd.Name)
	}
	return names
}

func withPrefix(words []string, prefix string) []string {
	var found []string
	for _, word := range words {
		if strings.HasPrefix(word, prefix) {
			found = append(found, word)
		}
	}
	return found
}
