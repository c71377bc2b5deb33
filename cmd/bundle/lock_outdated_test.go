package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill/internal/releasefile"
)

// Of a tag that is gone no update is advised that would not find it.
func TestOutdatedHint(t *testing.T) {
	moved := releasefile.OutdatedImage{Reference: "quay.io/shop/db:1", Components: []string{"db"}, Now: "sha256:1"}
	gone := releasefile.OutdatedImage{Reference: "quay.io/shop/web:1", Components: []string{"web"}, Gone: true}
	mend := "an update does not find quay.io/shop/web:1: first name another tag or the locked digest, in the chart's values or under images"
	update := "`bundle lock --update db` locks what is there now, as far as the release file allows it"
	tests := map[string]struct {
		images []releasefile.OutdatedImage
		want   string
	}{
		"moved": {[]releasefile.OutdatedImage{moved}, update},
		"gone":  {[]releasefile.OutdatedImage{gone}, mend},
		"both":  {[]releasefile.OutdatedImage{moved, gone}, mend + "; then " + update},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var outdated *outdatedError
			if err := (behindness{images: tt.images}).verdict(); !errors.As(err, &outdated) {
				t.Fatalf("the verdict is %v", err)
			}
			if diff := cmp.Diff(tt.want, outdated.Hint()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
