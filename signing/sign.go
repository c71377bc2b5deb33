package signing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
)

// A Format is the form in which [Signer.Sign] attaches a signature.
type Format int

const (
	// FormatTag is cosign's tag form, which every cosign and Flux read
	// without a network.
	FormatTag Format = iota
	// FormatReferrer is a sigstore bundle as a referrer, as cosign 3 writes it.
	FormatReferrer
	// FormatBoth writes both.
	FormatBoth
)

// ParseFormat reads the name of a format: tag, referrer or both.
func ParseFormat(name string) (Format, error) {
	for f, word := range map[Format]string{FormatTag: "tag", FormatReferrer: "referrer", FormatBoth: "both"} {
		if name == word {
			return f, nil
		}
	}
	return 0, fmt.Errorf("signature format %q is none of tag, referrer, both", name)
}

// SignOptions says how to sign.
type SignOptions struct {
	// Repository is what the payload calls the place, host and path without
	// tag and digest; cosign writes it and nobody checks it.
	Repository string
	// Format is the form to write, the tag form by default.
	Format Format
}

// A SignResult says what was done.
type SignResult struct {
	// AlreadySigned is true when the digest had a valid signature by this key
	// in every form asked for, so that nothing was written.
	AlreadySigned bool
	// Written are the manifests that were written.
	Written []ocispec.Descriptor
}

// Sign signs desc, which dst has, and attaches the signature there. Signatures
// that are there already stay: in the tag form the new one is added behind
// them. What was written is read back before success is said.
//
// Nothing is sent anywhere but to dst (and to the service that holds the key).
// Errors are [*ContentError] when signatures that are there already are damaged, and
// what dst or the key's service return.
func (s *Signer) Sign(ctx context.Context, dst Target, desc ocispec.Descriptor, opts SignOptions) (SignResult, error) {
	if err := desc.Digest.Validate(); err != nil {
		return SignResult{}, fmt.Errorf("signing %q: %w", desc.Digest, err)
	}
	steps := map[Format][]func(context.Context, Target, ocispec.Descriptor, SignOptions) (*ocispec.Descriptor, error){
		FormatTag:      {s.signTag},
		FormatReferrer: {s.signReferrer},
		FormatBoth:     {s.signTag, s.signReferrer},
	}[opts.Format]
	if len(steps) == 0 {
		return SignResult{}, fmt.Errorf("signing %s: unknown signature format %d", desc.Digest, opts.Format)
	}
	var result SignResult
	for _, step := range steps {
		written, err := step(ctx, dst, desc, opts)
		if err != nil {
			return result, fmt.Errorf("signing %s: %w", desc.Digest, err)
		}
		if written != nil {
			result.Written = append(result.Written, *written)
		}
	}
	result.AlreadySigned = len(result.Written) == 0
	return result, nil
}

// made says whether one of the signatures is a valid one of this key.
func (s *Signer) made(signatures []attachment, want digest.Digest) bool {
	r := &rules{Policy: Policy{Keys: []Key{s.key}, Threshold: 1}}
	return len(r.judgeAll(signatures, want)) > 0
}

// pushBytes writes content unless it is there, and describes it.
func pushBytes(ctx context.Context, dst Target, desc ocispec.Descriptor, data []byte) (ocispec.Descriptor, error) {
	desc.Digest, desc.Size = digest.FromBytes(data), int64(len(data))
	there, err := dst.Exists(ctx, desc)
	if err != nil || there {
		return desc, err
	}
	err = dst.Push(ctx, desc, bytes.NewReader(data))
	var index interface{ IsReferrersIndexDelete() bool }
	switch {
	case errors.Is(err, errdef.ErrAlreadyExists):
		return desc, nil
	case errors.As(err, &index) && index.IsReferrersIndexDelete():
		// All is written; only the list of referrers that it replaces could
		// not be deleted. Many registries don't allow that.
		return desc, nil
	}
	return desc, err
}

// encode is json.Marshal without the escapes that browsers want: descriptors
// of others go through it and stay as they are.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
