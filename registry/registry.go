// Package registry is where bundles live: registries, archives (one tar file)
// and layouts (a folder), all of them the same three things to a caller: a
// [Location] that can be read and printed, a [Source] to read from, and a
// [Destination] to write to.
//
//	ParseLocation ─► Client.Open   ─► Source       Fetch, Resolve, Predecessors, Has, Tags
//	              └► Client.Create ─► Destination  Push, Tag, then Commit or Abort
//
// The package alone knows HTTP to registries: TLS, proxies, credentials,
// retries, redirects and time-outs are decided in one [Client] and hold for
// every request of a run. It knows the OCI image layout in a folder and in a
// tar. Every byte it hands out was checked against its descriptor, and every
// error is one of the types in errors.go, with host and reference.
//
// It does not know what a bundle means: manifests are opaque bytes here, looked
// into only for the digests they name. That is package bundle's. Policy, such
// as whether a tag may move, is the caller's, who asks [Destination.Resolve].
//
// Begin with [ParseLocation] and [Client.Open].
package registry
