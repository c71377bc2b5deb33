package registry

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// Large blobs are read one after another, in order, whoever comes first; two at a
// time once a second lane is open.
func TestLanesAreTakenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := []int{2, 5, 9, 11}
		l := newLanes(order, 2)
		var mu sync.Mutex
		var entered []int
		var alone []bool
		leave := map[int]chan struct{}{}
		for _, part := range order {
			leave[part] = make(chan struct{})
		}
		for _, part := range []int{11, 9, 2, 5} {
			go func() {
				first, err := l.enter(t.Context(), part)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				entered, alone = append(entered, part), append(alone, first)
				mu.Unlock()
				<-leave[part]
				l.leave()
			}()
			synctest.Wait()
		}
		expect := func(want ...int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(entered, want) {
				t.Errorf("%v have entered, want %v", entered, want)
			}
		}
		expect(2)
		l.adapt(true)
		expect(2, 5)
		l.adapt(true) // no further than the limit
		expect(2, 5)
		close(leave[5])
		expect(2, 5, 9)
		l.adapt(false)
		l.adapt(false) // no further than one
		close(leave[2])
		expect(2, 5, 9)
		close(leave[9])
		expect(2, 5, 9, 11)
		close(leave[11])
		if want := []bool{true, false, false, true}; !slices.Equal(alone, want) {
			t.Errorf("alone in the lanes: %v, want %v", alone, want)
		}
	})
}

// Who waits for a lane doesn't wait longer than the copy.
func TestLaneIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLanes([]int{0, 1}, 1)
		if _, err := l.enter(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, err := l.enter(ctx, 1)
			failed <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}
