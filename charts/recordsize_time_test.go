package charts

import (
	"testing"
	"time"
)

// The same chart has one record size, whatever the clock says.
func TestRecordSizeKnowsNoClock(t *testing.T) {
	chart := fromText(t, "-- Chart.yaml --\napiVersion: v2\nname: shop\nversion: 1.0.0\n-- templates/a.yaml --\n{}\n")
	sizes := map[int]bool{}
	for range 20 {
		rendered, err := chart.Render(RenderOptions{HelmRelease: "a", Namespace: "b"})
		if err != nil {
			t.Fatal(err)
		}
		size, err := chart.RecordSize(rendered)
		if err != nil {
			t.Fatal(err)
		}
		sizes[size.Bytes] = true
		time.Sleep(time.Millisecond)
	}
	if len(sizes) != 1 {
		t.Errorf("%d different sizes: %v", len(sizes), sizes)
	}
}
