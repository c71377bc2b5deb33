// Package netrc reads the files in which curl and git keep logins for hosts. It
// knows how they are written, and neither where they are nor who may be told a
// login. Try [Parse] first.
package netrc

import "strings"

// A Login is a machine of a netrc file.
type Login struct{ Machine, User, Password string }

// Parse reads a netrc file as curl and git do: words apart by white space,
// in double quotes where they hold some, a # at the start of a word begins a
// comment. Macros are skipped. What is no netrc gives no logins.
//
// The entry default is not read. It would give a login to whatever host a
// release file names.
func Parse(text string) []Login {
	var all []Login
	var current *Login // nil before the first machine and in default
	words := splitWords(text)
	for len(words) > 0 {
		key := words[0]
		words = words[1:]
		if key == "default" {
			current = nil
			continue
		}
		if len(words) == 0 {
			break
		}
		value := words[0]
		switch key {
		case "machine":
			all = append(all, Login{Machine: value})
			current = &all[len(all)-1]
		case "login":
			if current != nil {
				current.User = value
			}
		case "password":
			if current != nil {
				current.Password = value
			}
		case "account":
		default:
			continue // not a word of netrc: the next one may be
		}
		words = words[1:]
	}
	return all
}

// splitWords splits the text, leaving out comments and macros. A macro ends at
// an empty line.
func splitWords(text string) []string {
	var words []string
	macro := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if macro {
			macro = line != ""
			continue
		}
		for line != "" && line[0] != '#' {
			var word string
			word, line = nextWord(line)
			if word == "macdef" {
				macro = true
				break
			}
			words = append(words, word)
			line = strings.TrimSpace(line)
		}
	}
	return words
}

// nextWord takes the first word off a line, with \ before a character that
// means itself inside quotes.
func nextWord(line string) (word, rest string) {
	if line[0] != '"' {
		if at := strings.IndexAny(line, " \t"); at >= 0 {
			return line[:at], line[at:]
		}
		return line, ""
	}
	var b strings.Builder
	for i := 1; i < len(line); i++ {
		switch {
		case line[i] == '"':
			return b.String(), line[i+1:]
		case line[i] == '\\' && i+1 < len(line):
			i++
		}
		b.WriteByte(line[i])
	}
	return b.String(), ""
}

// Find gives the first login for a host; netrc knows no ports.
func Find(all []Login, host string) (Login, bool) {
	for _, login := range all {
		if strings.EqualFold(login.Machine, host) && (login.User != "" || login.Password != "") {
			return login, true
		}
	}
	return Login{}, false
}
