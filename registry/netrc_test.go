package registry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNetrc(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want []netrcLogin
	}{
		"one line":         {"machine a login b password c", []netrcLogin{{"a", "b", "c"}}},
		"lines":            {"machine a\n\tlogin b\n  password c\nmachine d login e password f\n", []netrcLogin{{"a", "b", "c"}, {"d", "e", "f"}}},
		"words of netrc":   {"machine machine login default password machine", []netrcLogin{{"machine", "default", "machine"}}},
		"comments":         {"# machine x\nmachine a # login x\nlogin b password c#d\n", []netrcLogin{{"a", "b", "c#d"}}},
		"quotes":           {`machine a login "b b" password "c \"c\\"`, []netrcLogin{{"a", "b b", `c "c\`}}},
		"macros":           {"machine a login b password c\nmacdef init\nmachine x\n\nmachine d password f", []netrcLogin{{"a", "b", "c"}, {"d", "", "f"}}},
		"default":          {"machine a login b password c\ndefault login x password y", []netrcLogin{{"a", "b", "c"}}},
		"account":          {"machine a account login login b password c", []netrcLogin{{"a", "b", "c"}}},
		"cut off":          {"machine a login b password", []netrcLogin{{"a", "b", ""}}},
		"cut off earlier":  {"machine", nil},
		"nothing":          {"", nil},
		"login before":     {"login b password c machine a", []netrcLogin{{"a", "", ""}}},
		"what is no netrc": {"{\"a\": 1}", nil},
		"an open quote":    {"machine \"a", []netrcLogin{{"a", "", ""}}},
		"carriage returns": {"machine a\r\nlogin b\r\npassword c\r\n", []netrcLogin{{"a", "b", "c"}}},
	} {
		if diff := cmp.Diff(tc.want, parseNetrc(tc.in), cmp.AllowUnexported(netrcLogin{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func FuzzNetrc(f *testing.F) {
	f.Add("machine a login \"b\\\" password c # d\nmacdef x\n\n")
	f.Fuzz(func(_ *testing.T, in string) { parseNetrc(in) })
}
