package near

import "testing"

func TestWord(t *testing.T) {
	known := []string{"build", "lint", "lock", "sign", "verify", "values", "namespace", "createNamespace", "web"}
	tests := map[string]struct{ word, want string }{
		"one letter wrong":        {"bulid", "build"},
		"two letters swapped":     {"locl", "lock"},
		"a short word, swapped":   {"wbe", "web"},
		"one letter missing":      {"verfy", "verify"},
		"other case":              {"NameSpace", "namespace"},
		"underscore":              {"create_namespace", "createNamespace"},
		"nothing like it":         {"kubernetes", ""},
		"one letter says nothing": {"b", ""},
		"the first among equals":  {"lick", "lock"},
		"the word itself":         {"sign", "sign"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Word(tt.word, known); got != tt.want {
				t.Errorf("Word(%q) = %q, want %q", tt.word, got, tt.want)
			}
		})
	}
}
