package cluster

import "testing"

func TestWrites(t *testing.T) {
	for name, test := range map[string]struct {
		request Request
		writes  bool
	}{
		"a read":                 {Request{Verb: "get", Resource: "secrets", URI: "/api/v1/namespaces/a/secrets/b"}, false},
		"a creation":             {Request{Verb: "create", Resource: "secrets", URI: "/api/v1/namespaces/a/secrets"}, true},
		"an apply":               {Request{Verb: "patch", Resource: "secrets", URI: "/api/v1/namespaces/a/secrets/b?fieldManager=waybill&force=false"}, true},
		"a deletion of many":     {Request{Verb: "deletecollection", Resource: "secrets", URI: "/api/v1/namespaces/a/secrets"}, true},
		"a refused creation":     {Request{Verb: "create", Resource: "secrets", URI: "/api/v1/namespaces/a/secrets", Code: 403}, true},
		"a dry run":              {Request{Verb: "patch", Resource: "secrets", URI: "/api/v1/namespaces/a/secrets/b?dryRun=All&fieldManager=waybill"}, false},
		"a question about right": {Request{Verb: "create", Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews", URI: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"}, false},
		"a path":                 {Request{Verb: "get", URI: "/version"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.request.Writes(); got != test.writes {
				t.Errorf("writes: %v", got)
			}
		})
	}
}
