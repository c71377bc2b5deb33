package bundle

// Media and artifact types of a bundle. They end in a version; a reader that
// meets another version of one of them refuses with a [NewerError].
const (
	// ArtifactType marks the root index. [Build] writes it, [Open] and every
	// tool that lists artifacts by type read it.
	ArtifactType = "application/vnd.waybill.bundle.v1+json"
	// ArtifactTypeRelease marks the one image manifest of role [RoleRelease].
	ArtifactTypeRelease = "application/vnd.waybill.release.v1+json"
	// MediaTypeReleaseFile is the layer that holds the release file as written.
	MediaTypeReleaseFile = "application/vnd.waybill.release-file.v1+yaml"
	// MediaTypeLock is the layer that holds the lock, byte for byte the file on disk.
	MediaTypeLock = "application/vnd.waybill.lock.v1+yaml"
	// MediaTypeValues is a layer that holds one values file; its title is the
	// path the release file gives for it: a key, never a path to write to.
	MediaTypeValues = "application/vnd.waybill.values.v1+yaml"
)

// Media types that belong to Helm's chart manifest, repeated here because this
// room does not link Helm (helm.sh/helm/v3/pkg/registry names them
// ConfigMediaType, ChartLayerMediaType, LegacyChartLayerMediaType and
// ProvLayerMediaType). The old one is of Helm before 3.7; registries still have
// charts under it, and they are taken as they are.
const (
	MediaTypeHelmConfig     = "application/vnd.cncf.helm.config.v1+json"
	MediaTypeHelmChart      = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	MediaTypeHelmChartOld   = "application/tar+gzip"
	MediaTypeHelmProvenance = "application/vnd.cncf.helm.chart.provenance.v1.prov"
)

// Annotations on the entries of the root index.
const (
	// AnnotationRole says what an entry is for: one of the roles below. Build
	// writes it; every reader decides by it.
	AnnotationRole = "waybill.role"
	// AnnotationComponent names the components that use a chart, sorted and
	// joined by commas. Build writes it; Open compares it with the lock.
	AnnotationComponent = "waybill.component"
	// AnnotationLeftOut lists the layers of an image that may not be given on and
	// were left out when the bundle was built: their digests, sorted and joined by
	// commas. Build writes it; Check does not miss them, and readers say so.
	AnnotationLeftOut = "waybill.left-out"
)

// Roles of the entries of the root index. Entries with another role are copied
// and never installed.
const (
	RoleRelease = "release"
	RoleChart   = "chart"
	RoleImage   = "image"
)

// Names every document of ours begins with.
const (
	APIVersion  = "waybill/v1"
	KindRelease = "Release"
	KindLock    = "Lock"
	KindSite    = "Site"
	KindPolicy  = "Policy"
)
