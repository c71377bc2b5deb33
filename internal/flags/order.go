package flags

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/internal/near"
)

// A UsageError reports words on the command line that cannot be meant, with
// what was probably meant. Programs exit with 2 for it.
type UsageError struct {
	Message string
	Hint    string // what to type instead; may be empty

	unknown string // the command or --flag that is not known
}

func (e *UsageError) Error() string { return e.Message }

// UsageHint returns what to type instead, or "".
func (e *UsageError) UsageHint() string { return e.Hint }

// Usagef returns a [UsageError] without a hint.
func Usagef(format string, args ...any) *UsageError {
	return &UsageError{Message: fmt.Sprintf(format, args...)}
}

// Order returns the words of a command line in the order the flag library
// wants them: program, command, flags, "--", arguments. Flags may stand
// anywhere in args, before the command too; "--" ends them. args[0] is the
// program.
//
// A word that begins with '-' and is no flag of the command, a value flag
// without a value, and a first word that is no command are a [*UsageError].
// fallback, when not nil, may name the command that a first word which is
// none belongs to ("" for none).
func Order(app *cli.App, args []string, fallback func(word string) string) ([]string, error) {
	if len(args) == 2 && (args[1] == "--version" || args[1] == "-v") { // elsewhere --version is a flag with a value
		return []string{args[0], "version"}, nil
	}
	words, err := split(app, args[1:])
	if err != nil {
		return nil, err
	}
	if len(words.rest) == 0 && len(words.after) > 0 {
		words.rest, words.after = words.after[:1], words.after[1:]
	}
	if len(words.rest) == 0 {
		return topLevel(app, args[0], words)
	}
	cmd, rest := app.Command(words.rest[0]), words.rest[1:]
	if cmd == nil && fallback != nil {
		cmd, rest = app.Command(fallback(words.rest[0])), words.rest
	}
	if cmd == nil {
		return nil, unknownCommand(app, words.rest[0])
	}
	out := []string{args[0], cmd.Name}
	for _, f := range words.flags {
		if !hasName(cmd.Flags, f.name) && !isHelp(f.name) {
			return nil, notOfCommand(app, cmd, f)
		}
		out = append(out, f.words...)
	}
	return append(append(out, "--"), append(rest, words.after...)...), nil
}

// words is a command line taken apart.
type words struct {
	flags []flagWord
	rest  []string // words that are no flags, before "--"
	after []string // what follows "--"
}

type flagWord struct {
	name  string   // without dashes and value
	words []string // as typed
}

func split(app *cli.App, args []string) (words, error) {
	var w words
	takes := valueFlags(app)
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch {
		case word == "--":
			w.after = args[i+1:]
			return w, nil
		case word == "-" || !strings.HasPrefix(word, "-"):
			w.rest = append(w.rest, word)
			continue
		}
		name, _, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
		takesValue, known := takes[name]
		if !known && !isHelp(name) {
			return w, unknownFlag(takes, word)
		}
		f := flagWord{name: name, words: []string{word}}
		if takesValue && !joined {
			if i+1 == len(args) || looksLikeFlag(takes, args[i+1]) {
				return w, Usagef("flag %s needs a value", word)
			}
			i++
			f.words = append(f.words, args[i])
		}
		w.flags = append(w.flags, f)
	}
	return w, nil
}

// topLevel answers a command line without a command.
func topLevel(app *cli.App, program string, w words) ([]string, error) {
	for _, f := range w.flags {
		if !isHelp(f.name) {
			return nil, &UsageError{
				Message: fmt.Sprintf("no command given, only flag %s", f.words[0]),
				Hint:    fmt.Sprintf("`%s help` lists the commands", app.Name),
			}
		}
	}
	return []string{program, "help"}, nil
}

// valueFlags maps every flag name of every command to whether it takes a
// value. A name means the same kind of flag in all commands.
func valueFlags(app *cli.App) map[string]bool {
	takes := map[string]bool{}
	for _, cmd := range app.Commands {
		for _, f := range cmd.Flags {
			_, isBool := f.(*cli.BoolFlag)
			for _, name := range f.Names() {
				takes[name] = !isBool
			}
		}
	}
	return takes
}

func looksLikeFlag(takes map[string]bool, word string) bool {
	if !strings.HasPrefix(word, "-") || word == "-" {
		return false
	}
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	_, known := takes[name]
	return known || word == "--"
}

func isHelp(name string) bool { return name == "help" || name == "h" }

func hasName(flags []cli.Flag, name string) bool {
	for _, f := range flags {
		for _, n := range f.Names() {
			if n == name {
				return true
			}
		}
	}
	return false
}

func unknownFlag(takes map[string]bool, word string) error {
	known := make([]string, 0, len(takes))
	for name := range takes {
		known = append(known, name)
	}
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	err := Usagef("unknown flag %q", word)
	err.unknown = "--" + name
	if meant := near.Word(name, known); meant != "" {
		err.Hint = fmt.Sprintf("did you mean %s?", dashed(meant))
	} else {
		err.Hint = "words after -- are taken as they are"
	}
	return err
}

func notOfCommand(app *cli.App, cmd *cli.Command, f flagWord) error {
	var known, others []string
	for _, flag := range cmd.Flags {
		known = append(known, flag.Names()...)
	}
	for _, other := range app.Commands {
		if hasName(other.Flags, f.name) {
			others = append(others, other.Name)
		}
	}
	err := Usagef("flag %s is not one of `%s %s` (it belongs to %s)", dashed(f.name), app.Name, cmd.Name, strings.Join(others, ", "))
	if meant := near.Word(f.name, known); meant != "" {
		err.Hint = fmt.Sprintf("did you mean %s?", dashed(meant))
	} else {
		err.Hint = fmt.Sprintf("`%s help %s` lists its flags", app.Name, cmd.Name)
	}
	return err
}

func unknownCommand(app *cli.App, word string) error {
	var known []string
	for _, cmd := range app.Commands {
		known = append(known, cmd.Names()...)
	}
	err := Usagef("unknown command %q", word)
	err.unknown = word
	if meant := near.Word(word, known); meant != "" {
		err.Hint = fmt.Sprintf("did you mean `%s %s`?", app.Name, meant)
	} else {
		err.Hint = fmt.Sprintf("`%s help` lists the commands", app.Name)
	}
	return err
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
