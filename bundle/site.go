package bundle

import "github.com/opencontainers/go-digest"

// A Site is the site file: the choices of one place where bundles are applied.
// [ParseSite] makes one.
type Site struct {
	APIVersion     string                   `json:"apiVersion" jsonschema:"enum=waybill/v1" jsonschema_description:"The version of this document's format."`
	Kind           string                   `json:"kind" jsonschema:"enum=Site" jsonschema_description:"What this document is."`
	Site           string                   `json:"site,omitempty" jsonschema:"maxLength=63,pattern=^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" jsonschema_description:"The site's name; recorded, and another name later is refused."`
	Release        string                   `json:"release,omitempty" jsonschema:"maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"The release this file is for."`
	Instance       string                   `json:"instance,omitempty" jsonschema:"maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"The installation's name; the release's name when absent."`
	StateNamespace string                   `json:"stateNamespace,omitempty" jsonschema:"maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$,default=waybill-system" jsonschema_description:"The namespace of records and lease."`
	Registry       *SiteRegistry            `json:"registry,omitempty" jsonschema_description:"How registries are reached from here."`
	Components     map[string]SiteComponent `json:"components,omitempty" jsonschema_description:"What this site says of components, by name."`
	Images         *SiteImages              `json:"images,omitempty" jsonschema_description:"Where nodes pull images from."`
	Verify         *VerifyBlock             `json:"verify,omitempty" jsonschema_description:"Whose signatures are accepted."`
	HistoryMax     int                      `json:"historyMax,omitempty" jsonschema:"minimum=1,maximum=1000,default=10" jsonschema_description:"How many revisions are kept."`

	doc *document // where things stand in the file, for Check
}

// SiteRegistry says how registries are reached; the flags of the same names win.
type SiteRegistry struct {
	CAFiles        []string          `json:"caFiles,omitempty" jsonschema:"minLength=1" jsonschema_description:"Files of further roots, relative to this file."`
	CertFile       string            `json:"certFile,omitempty" jsonschema_description:"The client's certificate, relative to this file."`
	KeyFile        string            `json:"keyFile,omitempty" jsonschema_description:"The client's key, relative to this file."`
	PlainHTTPHosts []string          `json:"plainHTTPHosts,omitempty" jsonschema:"minLength=1" jsonschema_description:"Hosts spoken to without TLS."`
	InsecureHosts  []string          `json:"insecureHosts,omitempty" jsonschema:"minLength=1" jsonschema_description:"Hosts whose certificate is not checked."`
	TLSHosts       []string          `json:"tlsHosts,omitempty" jsonschema:"minLength=1" jsonschema_description:"Loopback hosts spoken to with TLS."`
	ConfigFile     string            `json:"configFile,omitempty" jsonschema_description:"A Docker configuration file with credentials, relative to this file."`
	Overrides      map[string]string `json:"overrides,omitempty" jsonschema_description:"Upstream registries or repositories and where their bytes come from instead."`
	Concurrency    int               `json:"concurrency,omitempty" jsonschema:"minimum=1,maximum=1000" jsonschema_description:"How many transfers run at the same time."`
	Retry          int               `json:"retry,omitempty" jsonschema:"minimum=0,maximum=100" jsonschema_description:"How often a request is tried again."`
}

// SiteComponent is what a site says of one component.
type SiteComponent struct {
	Enabled     *bool          `json:"enabled,omitempty" jsonschema:"default=true" jsonschema_description:"false: the site provides the component or does without; what needs it goes on."`
	Profile     string         `json:"profile,omitempty" jsonschema_description:"The profile picked."`
	Namespace   string         `json:"namespace,omitempty" jsonschema:"maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"Another namespace than the release's."`
	ValuesFiles []string       `json:"valuesFiles,omitempty" jsonschema:"minLength=1" jsonschema_description:"Values files, later ones winning; paths relative to this file."`
	ValuesFrom  []ValuesFrom   `json:"valuesFrom,omitempty" jsonschema_description:"Values from Secrets and ConfigMaps of the cluster, later ones winning."`
	Values      map[string]any `json:"values,omitempty" jsonschema_description:"Values, winning over valuesFiles and over valuesFrom without a targetPath."`
}

// IsEnabled reports whether the component is to be installed: true unless the
// site says otherwise.
func (c SiteComponent) IsEnabled() bool { return c.Enabled == nil || *c.Enabled }

// ValuesFrom takes values from an object of the cluster, as Flux and Argo have it.
type ValuesFrom struct {
	Kind       string `json:"kind" jsonschema:"enum=Secret,enum=ConfigMap" jsonschema_description:"Secret or ConfigMap."`
	Name       string `json:"name" jsonschema:"minLength=1,maxLength=253" jsonschema_description:"The object's name."`
	Namespace  string `json:"namespace,omitempty" jsonschema:"maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"The object's namespace; the component's when absent."`
	ValuesKey  string `json:"valuesKey,omitempty" jsonschema:"maxLength=253,pattern=^[-._a-zA-Z0-9]+$,default=values.yaml" jsonschema_description:"The key of the object's data."`
	TargetPath string `json:"targetPath,omitempty" jsonschema:"minLength=1" jsonschema_description:"Where in the values the content goes as text; absent: the content is values itself."`
	Optional   bool   `json:"optional,omitempty" jsonschema:"default=false" jsonschema_description:"Whether the object or key may be absent."`
}

// SiteImages says where nodes pull images from.
type SiteImages struct {
	Mode       string         `json:"mode,omitempty" jsonschema:"pattern=^(relocate|keep|expand:.+)$" jsonschema_description:"relocate, keep or expand:PREFIX."`
	Registry   string         `json:"registry,omitempty" jsonschema:"minLength=1" jsonschema_description:"The repository by the name nodes reach it."`
	PullSecret *PullSecret    `json:"pullSecret,omitempty" jsonschema_description:"A pull secret, copied into each namespace of the instance."`
	Replace    []ReplaceImage `json:"replace,omitempty" jsonschema_description:"Images replaced by others."`
	Allow      []string       `json:"allow,omitempty" jsonschema:"minLength=1" jsonschema_description:"Patterns of references that are accepted though neither the lock nor this file knows them."`
}

// PullSecret names a Secret with registry credentials.
type PullSecret struct {
	Namespace string `json:"namespace" jsonschema:"maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"The Secret's namespace."`
	Name      string `json:"name" jsonschema:"minLength=1,maxLength=253" jsonschema_description:"The Secret's name."`
}

// ReplaceImage puts one image in another's place.
type ReplaceImage struct {
	Name    string        `json:"name" jsonschema:"minLength=1" jsonschema_description:"The reference that is replaced."`
	NewName string        `json:"newName,omitempty" jsonschema:"minLength=1" jsonschema_description:"The repository of the new image."`
	Digest  digest.Digest `json:"digest" jsonschema:"pattern=^sha256:[0-9a-f]{64}$" jsonschema_description:"The new image's digest."`
	Reason  string        `json:"reason,omitempty" jsonschema_description:"Why; recorded."`
}

// A VerifyBlock says whose signatures are accepted. A site file has one as
// verify, a policy file is one.
type VerifyBlock struct {
	Keys             []string   `json:"keys,omitempty" jsonschema:"minItems=1,minLength=1" jsonschema_description:"Public keys: files relative to this file, env://, k8s:// or KMS addresses. Any one suffices."`
	Identities       []Identity `json:"identities,omitempty" jsonschema:"minItems=1" jsonschema_description:"Identities of certificates. Any one suffices."`
	TrustedRoot      string     `json:"trustedRoot,omitempty" jsonschema:"minLength=1" jsonschema_description:"A sigstore trusted root, relative to this file."`
	RequireLog       bool       `json:"requireLog,omitempty" jsonschema:"default=false" jsonschema_description:"Whether an entry in a transparency log is needed."`
	RequireTimestamp bool       `json:"requireTimestamp,omitempty" jsonschema:"default=false" jsonschema_description:"Whether a signed timestamp is needed."`
	Threshold        int        `json:"threshold,omitempty" jsonschema:"minimum=1,maximum=100,default=1" jsonschema_description:"How many different signers are needed."`
	AllowUnsigned    bool       `json:"allowUnsigned,omitempty" jsonschema:"default=false" jsonschema_description:"Whether a bundle without any signature is accepted, and recorded so."`
}

// An Identity is a certificate's subject and who vouches for it.
type Identity struct {
	Issuer        string `json:"issuer" jsonschema:"minLength=1" jsonschema_description:"The OIDC issuer."`
	Subject       string `json:"subject,omitempty" jsonschema:"minLength=1" jsonschema_description:"The subject, exactly."`
	SubjectRegexp string `json:"subjectRegexp,omitempty" jsonschema:"minLength=1" jsonschema_description:"A regular expression for the whole subject."`
}

// policyFile is a policy file: the fields of a VerifyBlock and the names every document has.
type policyFile struct {
	APIVersion string `json:"apiVersion" jsonschema:"enum=waybill/v1" jsonschema_description:"The version of this document's format."`
	Kind       string `json:"kind" jsonschema:"enum=Policy" jsonschema_description:"What this document is."`
	VerifyBlock
}
