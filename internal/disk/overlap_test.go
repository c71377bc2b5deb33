package disk_test

import (
	"runtime"
	"testing"

	"waybill/internal/disk"
)

func TestOverlap(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	first, second := disk.Overlap(), disk.Overlap()
	if got := runtime.GOMAXPROCS(0); got != 2*before {
		t.Errorf("%d turns for %d processors", got, before)
	}
	first()
	first()
	if got := runtime.GOMAXPROCS(0); got != 2*before {
		t.Errorf("%d turns while one still writes", got)
	}
	second()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("%d turns afterwards, %d before", got, before)
	}
}
