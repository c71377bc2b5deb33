package bundle

import (
	"context"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// Signatures only for now; the bodies follow in files of their own.

type document struct{}

func ParseRelease(name string, data []byte) (*Release, error)      { panic("to come") }
func ParseLock(name string, data []byte) (*Lock, error)            { panic("to come") }
func ParseSite(name string, data []byte) (*Site, error)            { panic("to come") }
func ParsePolicy(name string, data []byte) (*VerifyBlock, error)   { panic("to come") }
func ParseValues(name string, data []byte) (map[string]any, error) { panic("to come") }
func Schema(kind string) ([]byte, error)                           { panic("to come") }
func (l *Lock) Encode() ([]byte, error)                            { panic("to come") }
func (r *Release) Check() []Problem                                { panic("to come") }
func (s *Site) Check(r *Release) []Problem                         { panic("to come") }
func (r *Release) Levels() ([][]string, error)                     { panic("to come") }
func (r *Release) Dependencies(component string) []string          { panic("to come") }
func (r *Release) Dependents(component string) []string            { panic("to come") }
func Build(context.Context, content.Storage, Spec, BuildOptions) (ocispec.Descriptor, error) {
	panic("to come")
}
func Open(ctx context.Context, src content.Fetcher, root ocispec.Descriptor) (*Bundle, error) {
	panic("to come")
}
func (b *Bundle) ChartDescriptor(component string) (ocispec.Descriptor, error)      { panic("to come") }
func (b *Bundle) Chart(ctx context.Context, component string) ([]byte, error)       { panic("to come") }
func (b *Bundle) Check(ctx context.Context, opts CheckOptions) (CheckResult, error) { panic("to come") }
func (b *Bundle) UnknownRoles() []string                                            { panic("to come") }
func (b *Bundle) Installable() error                                                { panic("to come") }
func MakeLock(ctx context.Context, rel *Release, r Resolver, opts LockOptions) (*Lock, map[string]Chart, error) {
	panic("to come")
}
func CompareLock(ctx context.Context, rel *Release, lock *Lock, in Inputs, opts LockOptions) ([]string, error) {
	panic("to come")
}

// A Chart is a Helm chart manifest and the blobs it names.
type Chart interface {
	content.Fetcher
	Descriptor() ocispec.Descriptor
}

// A Resolver turns a component's chart source into a chart.
type Resolver interface {
	Resolve(ctx context.Context, c Component, locked *LockedChart) (Resolved, error)
}

// Resolved is what a [Resolver] found.
type Resolved struct {
	Locked LockedChart
	Chart  Chart
}

// Inputs tells, without a network, the digest of what resolving a component depends on now.
type Inputs interface {
	Inputs(ctx context.Context, c Component) (digest.Digest, error)
}

// LockOptions are the options of MakeLock and CompareLock.
type LockOptions struct {
	Previous  *Lock
	Update    []string
	UpdateAll bool
	Version   string
	Packed    string
}

// Spec is what Build packs.
type Spec struct {
	ReleaseFile []byte
	Release     *Release
	Lock        *Lock
	ValuesFiles map[string][]byte
	Charts      map[string]Chart
	Annotations map[string]string
}

// BuildOptions are the options of Build.
type BuildOptions struct {
	Concurrency int
	OnPushed    func(ocispec.Descriptor)
}

// A Bundle is an opened bundle.
type Bundle struct {
	Root        ocispec.Descriptor
	Index       ocispec.Index
	RootBytes   []byte
	Release     *Release
	ReleaseFile []byte
	Lock        *Lock
	LockFile    []byte
	ValuesFiles map[string][]byte
}

// CheckOptions are the options of Bundle.Check.
type CheckOptions struct {
	ReadData    bool
	Exists      func(ctx context.Context, desc ocispec.Descriptor) (bool, error)
	Concurrency int
}

// CheckResult says what Bundle.Check looked at.
type CheckResult struct {
	Manifests, Blobs int
	Bytes            int64
}
