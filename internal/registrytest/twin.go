package registrytest

import "net/http"

// WithoutFaults is the registry's content without login and faults, for
// [Options.Handler]: another host where the same lies.
func (s *Server) WithoutFaults() http.Handler { return s.handler }
