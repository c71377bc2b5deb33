package disk

import (
	"runtime"
	"sync"
)

var overlaps struct {
	mu     sync.Mutex
	now    int
	before int // turns to run
}

// Overlap lets goroutines run while others wait for a disk, until end is called:
// who writes past the cache waits for it, and Go notices late that another may
// run meanwhile. There are twice as many turns to run then as processors.
func Overlap() (end func()) {
	overlaps.mu.Lock()
	defer overlaps.mu.Unlock()
	if overlaps.now == 0 {
		overlaps.before = runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(2 * overlaps.before)
	}
	overlaps.now++
	return sync.OnceFunc(func() {
		overlaps.mu.Lock()
		defer overlaps.mu.Unlock()
		if overlaps.now--; overlaps.now == 0 {
			runtime.GOMAXPROCS(overlaps.before)
		}
	})
}
