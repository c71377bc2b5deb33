package registry

// Speaks says how a host is spoken to, for whoever tells others: without TLS, or
// without a check of its certificate. PlainHTTP and Insecure of the settings
// count once the host was opened.
func (c *Client) Speaks(host string) (plainHTTP, insecure bool) {
	return c.hosts.plain(host), c.hosts.insecure(host)
}
