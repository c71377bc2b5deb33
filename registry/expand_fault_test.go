package registry_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// Whatever goes wrong with whichever request, what is said to be done is there,
// and a second run completes the rest.
func TestExpandHealsFromFaults(t *testing.T) {
	cargo, images := fleet(t, 2)
	c := client(t, quick())
	plan := planned(t, c, cargo)
	for name, fault := range map[string]registrytest.Fault{
		"denied": {Status: http.StatusForbidden}, "gone": {Status: http.StatusNotFound}, "closed": {Drop: true}, "failed": {Status: http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for at, more := 1, true; more; at++ {
				var asked atomic.Int64
				reg := registrytest.New(t, registrytest.Options{Fault: func(*http.Request) *registrytest.Fault {
					if asked.Add(1) == int64(at) {
						return &fault
					}
					return nil
				}})
				all := placements(t, reg.Host, images)
				expand := func() error {
					x, err := client(t, quick()).Expand(plan, all)
					if err != nil {
						return err
					}
					opts := registry.ExpandOptions{CopyOptions: registry.CopyOptions{Concurrency: 1}}
					if err := x.Check(t.Context(), opts); err != nil {
						return err
					}
					_, err = x.Run(t.Context(), opts)
					return err
				}
				if err := expand(); err != nil {
					if err := expand(); err != nil {
						t.Fatalf("again after a fault at request %d: %v", at, err)
					}
				}
				more = asked.Swap(1<<32) >= int64(at) // and none from here on
				checkExpanded(t, c, all)
				reg.Close()
			}
		})
	}
}
