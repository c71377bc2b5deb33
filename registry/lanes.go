package registry

import (
	"context"
	"sync"
)

// largeBlob is the size from which blobs take lanes.
const largeBlob = 32 << 20

// Lanes let large blobs be read one after another, in the order of their parts:
// what is hashed from one end to the other, the tar itself, stays close to what is
// written, and so does what a later run can go on from. When the source
// is what is waited for, another one is read at the same time.
type lanes struct {
	mu    sync.Mutex
	news  sync.Cond
	order []int // of the parts
	next  int   // of order
	open  int   // in a lane
	most  int   // now
	limit int   // ever
}

func newLanes(order []int, limit int) *lanes {
	if limit <= 0 {
		limit = defaultConcurrency
	}
	l := &lanes{order: order, most: 1, limit: limit}
	l.news.L = &l.mu
	return l
}

// enter waits for a lane, and says whether all the others are empty.
func (l *lanes) enter(ctx context.Context, part int) (alone bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.news.Broadcast()
	})()
	for l.open >= l.most || l.order[l.next] != part {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		l.news.Wait()
	}
	l.next++
	l.open++
	l.news.Broadcast()
	return l.open == 1, nil
}

func (l *lanes) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	l.news.Broadcast()
}

// adapt opens one lane more when it is the source that is waited for, and else
// closes one again, once it is empty.
func (l *lanes) adapt(waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if waits {
		l.most = min(l.most+1, l.limit)
		l.news.Broadcast()
	} else {
		l.most = max(l.most-1, 1)
	}
}
