// Package bundle is the format of a release bundle: the documents people write
// and the OCI image index they become.
//
//	release.yaml ─┐                       root index   application/vnd.waybill.bundle.v1+json
//	values/*.yaml ┤                        ├── role release: one image manifest
//	              ├─ MakeLock ─ Build ──▶  │    ├── release file, as written
//	charts ───────┤                        │    ├── lock
//	              │                        │    └── values files, title = path in the release file
//	release.lock.yaml                      ├── role chart: Helm chart manifests, each with the
//	                                       │    components that use it
//	                                       └── role image: upstream's manifests and indexes
//
// Everything below the root is reached by digest, so one signature on the root
// covers it all. docs/format.md says the same for those who write other readers.
//
// It knows the media types ([ArtifactType] and its neighbours in mediatype.go),
// the documents ([Release], [Lock], [Site], [VerifyBlock]) with their JSON
// Schemas, the order of components ([Release.Levels]), and how a bundle is made,
// opened and checked. It leaves to its neighbours where bytes are kept (registry:
// any content.Fetcher or content.Storage will do), what is in a chart (charts:
// a [Resolver] brings them), who signed (signing) and what happens in a cluster
// (rollout). It links no Helm, cosign or Kubernetes client and touches no
// network, clock or environment.
//
// The doors to try first are [Open] for a bundle that exists, and
// [ParseRelease], [MakeLock] and [Build] for one that does not yet.
package bundle
