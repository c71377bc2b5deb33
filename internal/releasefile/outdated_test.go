package releasefile

import "testing"

func TestOutdatedWords(t *testing.T) {
	tests := []struct {
		name   string
		o      Outdated
		want   string
		behind bool
	}{
		{"newer and allowed", Outdated{Allowed: "1.1.0"}, "app 1.0.0, newest allowed 1.1.0", true},
		{"newer and not allowed", Outdated{Newest: "2.0.0"}, "app 1.0.0, newest 2.0.0 (the release file does not allow it)", false},
		{"both", Outdated{Allowed: "1.1.0", Newest: "2.0.0"}, "app 1.0.0, newest allowed 1.1.0, newest 2.0.0 (the release file does not allow it)", true},
		{"moved", Outdated{Moved: &Moved{From: "sha256:a", To: "sha256:b"}}, "app 1.0.0 moved from sha256:a to sha256:b", true},
		{"a ref that moved", Outdated{Moved: &Moved{Ref: "main", From: "x#1", To: "x#2"}}, "app 1.0.0, ref main moved from x#1 to x#2", true},
		{"gone", Outdated{Gone: true, Allowed: "1.1.0"}, "app 1.0.0 is no longer there, newest allowed 1.1.0", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.Component, tt.o.Chart, tt.o.Locked = "web", "app", "1.0.0"
			if got := tt.o.String(); got != tt.want || tt.o.Behind() != tt.behind {
				t.Errorf("%q, behind %t; want %q, %t", got, tt.o.Behind(), tt.want, tt.behind)
			}
		})
	}
}

func TestNewer(t *testing.T) {
	for _, tt := range []struct {
		version, other string
		want           bool
	}{
		{"1.0.1", "1.0.0", true}, {"1.0.0", "1.0.0", false}, {"1.0.0", "1.0.1", false}, {"1.0.0", "", true},
		{"v1.1.0", "1.0.0", true}, {"1.0.0", "2.0.0-rc.1", false}, {"latest", "1.0.0", false},
	} {
		if got := newer(tt.version, tt.other); got != tt.want {
			t.Errorf("%q after %q: %t, want %t", tt.version, tt.other, got, tt.want)
		}
	}
}
