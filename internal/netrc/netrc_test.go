package netrc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want []Login
	}{
		"one line":         {"machine a login b password c", []Login{{"a", "b", "c"}}},
		"lines":            {"machine a\n\tlogin b\n  password c\nmachine d login e password f\n", []Login{{"a", "b", "c"}, {"d", "e", "f"}}},
		"words of netrc":   {"machine machine login default password machine", []Login{{"machine", "default", "machine"}}},
		"comments":         {"# machine x\nmachine a # login x\nlogin b password c#d\n", []Login{{"a", "b", "c#d"}}},
		"quotes":           {`machine a login "b b" password "c \"c\\"`, []Login{{"a", "b b", `c "c\`}}},
		"macros":           {"machine a login b password c\nmacdef init\nmachine x\n\nmachine d password f", []Login{{"a", "b", "c"}, {"d", "", "f"}}},
		"default":          {"machine a login b password c\ndefault login x password y", []Login{{"a", "b", "c"}}},
		"account":          {"machine a account login login b password c", []Login{{"a", "b", "c"}}},
		"cut off":          {"machine a login b password", []Login{{"a", "b", ""}}},
		"cut off earlier":  {"machine", nil},
		"nothing":          {"", nil},
		"login before":     {"login b password c machine a", []Login{{"a", "", ""}}},
		"what is no netrc": {"{\"a\": 1}", nil},
		"an open quote":    {"machine \"a", []Login{{"a", "", ""}}},
		"carriage returns": {"machine a\r\nlogin b\r\npassword c\r\n", []Login{{"a", "b", "c"}}},
	} {
		if diff := cmp.Diff(tc.want, Parse(tc.in)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("machine a login \"b\\\" password c # d\nmacdef x\n\n")
	f.Fuzz(func(_ *testing.T, in string) { Parse(in) })
}
