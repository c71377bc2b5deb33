package door

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"waybill/bundle"
	"waybill/internal/files"
	"waybill/signing"
)

// PolicyChoice is what somebody said of the policy: in flags, in a site file,
// by a file in a known place.
type PolicyChoice struct {
	// Flags is what the flags say, in the form of a policy file; what was not
	// said is zero. Paths are relative to the working directory.
	Flags bundle.VerifyBlock
	// File is the policy file of --policy; "none" turns verification off.
	File string
	// Site is the verify block of a site file, nil for none; SiteFile its path.
	Site     *bundle.VerifyBlock
	SiteFile string
	// Known are the places of the user's and the machine's policy file, in
	// the order they are looked for.
	Known []string
}

// A PolicyError reports a policy that cannot be used: files that are missing
// or no keys, options that contradict each other.
type PolicyError struct {
	Source string
	Err    error
}

func (e *PolicyError) Error() string { return fmt.Sprintf("policy from %s: %v", e.Source, e.Err) }

func (e *PolicyError) Unwrap() error { return e.Err }

// LoadPolicy returns the first policy found: flags, --policy, the site file,
// the user's file, the machine's. Nil is none. Flags that name no signer
// (--threshold, --require-log, --require-timestamp, --allow-unsigned) change
// the policy found after them; with none there, only --allow-unsigned is a
// policy by itself. Errors are [*PolicyError] and [*bundle.FileError].
func LoadPolicy(ctx context.Context, choice PolicyChoice) (*signing.Policy, error) {
	found, err := choice.find()
	if err != nil || found == nil {
		return nil, err
	}
	if found.off {
		return &signing.Policy{Off: true, Source: found.source}, nil
	}
	policy, err := load(ctx, found.block, found.dir)
	if err != nil {
		return nil, &PolicyError{Source: found.source, Err: err}
	}
	policy.Source = found.source
	return policy, nil
}

// choicePolicy is a policy as found: its words, and where relative paths in
// them begin.
type choicePolicy struct {
	block  bundle.VerifyBlock
	dir    string
	source string
	off    bool
}

func (c PolicyChoice) find() (*choicePolicy, error) {
	named := namesSigner(c.Flags)
	switch {
	case named && c.File != "":
		return nil, &PolicyError{Source: "flags", Err: errors.New("--policy and flags that name a signer exclude each other; give one of them")}
	case named:
		return &choicePolicy{block: c.Flags, source: "flags"}, nil
	case c.File == "none":
		if changes(c.Flags) {
			return nil, &PolicyError{Source: "flags", Err: errors.New("--policy none verifies nothing, so that the other verification flags would not be honoured; leave them out")}
		}
		return &choicePolicy{off: true, source: "--policy none"}, nil
	}
	found, err := c.findFile()
	switch {
	case err != nil:
		return nil, err
	case found != nil:
		found.change(c.Flags)
		return found, nil
	case c.Flags.AllowUnsigned && !c.Flags.RequireLog && !c.Flags.RequireTimestamp && c.Flags.Threshold == 0 && c.Flags.TrustedRoot == "":
		return &choicePolicy{block: c.Flags, source: "--allow-unsigned"}, nil
	case changes(c.Flags):
		return nil, &PolicyError{Source: "flags", Err: errors.New("there is no --key and no --certificate-identity, so that the other verification flags have nothing to apply to; name a signer")}
	}
	return nil, nil
}

// findFile looks at --policy, the site file, and the known places.
func (c PolicyChoice) findFile() (*choicePolicy, error) {
	if c.File != "" {
		return readPolicy(c.File)
	}
	if c.Site != nil {
		return &choicePolicy{block: *c.Site, dir: filepath.Dir(c.SiteFile), source: "site file " + c.SiteFile}, nil
	}
	for _, path := range c.Known {
		found, err := readPolicy(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return found, err
	}
	return nil, nil
}

func readPolicy(path string) (*choicePolicy, error) {
	data, err := files.Read(path)
	if err != nil {
		return nil, &PolicyError{Source: path, Err: err}
	}
	block, err := bundle.ParsePolicy(path, data)
	if err != nil {
		return nil, err
	}
	return &choicePolicy{block: *block, dir: filepath.Dir(path), source: path}, nil
}

func (p *choicePolicy) change(flags bundle.VerifyBlock) {
	if !changes(flags) {
		return
	}
	p.source += " with flags"
	p.block.AllowUnsigned = p.block.AllowUnsigned || flags.AllowUnsigned
	p.block.RequireLog = p.block.RequireLog || flags.RequireLog
	p.block.RequireTimestamp = p.block.RequireTimestamp || flags.RequireTimestamp
	if flags.Threshold > 0 {
		p.block.Threshold = flags.Threshold
	}
	if flags.TrustedRoot != "" {
		// A path from a flag is relative to the working directory.
		if abs, err := filepath.Abs(flags.TrustedRoot); err == nil {
			flags.TrustedRoot = abs
		}
		p.block.TrustedRoot = flags.TrustedRoot
	}
}

func namesSigner(b bundle.VerifyBlock) bool { return len(b.Keys) > 0 || len(b.Identities) > 0 }

func changes(b bundle.VerifyBlock) bool {
	return b.AllowUnsigned || b.RequireLog || b.RequireTimestamp || b.Threshold > 0 || b.TrustedRoot != ""
}

// load reads keys and trust material.
func load(ctx context.Context, block bundle.VerifyBlock, dir string) (*signing.Policy, error) {
	policy := &signing.Policy{
		RequireLog: block.RequireLog, RequireTimestamp: block.RequireTimestamp,
		Threshold: max(block.Threshold, 1), AllowUnsigned: block.AllowUnsigned,
	}
	for _, reference := range block.Keys {
		key, err := signing.LoadKey(ctx, below(dir, reference))
		if err != nil {
			return nil, err
		}
		policy.Keys = append(policy.Keys, key)
	}
	for _, id := range block.Identities {
		policy.Identities = append(policy.Identities, signing.Identity{
			Issuer: id.Issuer, Subject: id.Subject, SubjectRegexp: id.SubjectRegexp,
		})
	}
	if block.TrustedRoot != "" {
		data, err := files.Read(below(dir, block.TrustedRoot))
		if err != nil {
			return nil, err
		}
		policy.TrustedRoot = data
	}
	if err := policy.Check(); err != nil {
		return nil, err
	}
	return policy, nil
}

// below makes a relative path in a file relative to that file; references to
// keys elsewhere (env://, k8s://, KMS) stay as they are.
func below(dir, path string) string {
	if dir == "" || filepath.IsAbs(path) || strings.Contains(path, "://") {
		return path
	}
	return filepath.Join(dir, path)
}
