package charts

import (
	"errors"
	"sync"
)

// A Cache holds what several [Resolve] calls of one run ask only once, so that
// they all see one state of a chart repository, of a registry's tags and of a
// git repository, and nothing is fetched twice. It is safe for use at the same
// time.
type Cache struct {
	mu    sync.Mutex
	calls map[string]*call
	ends  []func() error
}

// A call is made once; who comes later waits for its answer.
type call struct {
	once   sync.Once
	answer any
	err    error
}

// NewCache returns an empty cache. The caller closes it.
func NewCache() *Cache { return &Cache{calls: map[string]*call{}} }

// Close removes what the cache holds on disk.
func (c *Cache) Close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var failed []error
	for _, end := range c.ends {
		failed = append(failed, end())
	}
	c.ends, c.calls = nil, map[string]*call{}
	return errors.Join(failed...)
}

// atEnd has fn called when the cache is closed.
func (c *Cache) atEnd(fn func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = append(c.ends, fn)
}

// cached is the answer of fn, called once for a key. A failure is not kept: who
// comes later tries again.
func cached[T any](c *Cache, key string, fn func() (T, error)) (T, error) {
	c.mu.Lock()
	waiting, ok := c.calls[key]
	if !ok {
		waiting = &call{}
		c.calls[key] = waiting
	}
	c.mu.Unlock()
	waiting.once.Do(func() { waiting.answer, waiting.err = fn() })
	if waiting.err != nil {
		c.mu.Lock()
		if c.calls[key] == waiting {
			delete(c.calls, key)
		}
		c.mu.Unlock()
		var none T
		return none, waiting.err
	}
	return waiting.answer.(T), nil
}
