package charts

// A Cache holds what several [Resolve] calls of one run ask only once, so that
// they all see one state of a chart repository, of a registry's tags and of a
// git repository. It is safe for use at the same time.
type Cache struct{}

// NewCache returns an empty cache. The caller closes it.
func NewCache() *Cache { return &Cache{} }

// Close removes what the cache holds on disk.
func (c *Cache) Close() error { return nil }
