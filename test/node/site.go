//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// startTimeout bounds [Start], where the context sets no earlier end. Twenty
// seconds are usual.
const startTimeout = 5 * time.Minute

// A Site is a running site.
type Site struct {
	dir       string
	processes *processes
}

// Start starts a site and returns once its node is Ready and its registry
// answers. What it started ends with [Site.Stop], or when the calling process
// ends, however that happens, and nothing of it stays on the machine. The context
// bounds the start only.
//
// Errors: [ErrUnable], with all that is missing; anything else tells what did not
// start, with the end of its log.
func Start(ctx context.Context) (*Site, error) {
	programs, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "waybill-node-")
	if err != nil {
		return nil, fmt.Errorf("making the site's folder: %w", err)
	}
	s := &Site{dir: dir}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.start(ctx, programs); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the site: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Site) start(ctx context.Context, programs map[string]string) error {
	runc, err := buildRunc(ctx, s.path("bin"))
	if err != nil {
		return err
	}
	programs["runc"] = runc
	if err := s.prepare(programs); err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	if s.processes, err = startProcesses(s.dir); err != nil {
		return err
	}
	if err := s.processes.ready(ctx); err != nil {
		return err
	}
	return s.pushPause(ctx)
}

// prepare writes all that the programs of the site read.
func (s *Site) prepare(programs map[string]string) error {
	for _, dir := range []string{"lib", "log", "home", "cluster"} {
		if err := os.MkdirAll(s.path(dir), 0o755); err != nil {
			return err
		}
	}
	cert, key, err := newCertificate(registryName)
	if err != nil {
		return err
	}
	logins, err := htpasswd()
	if err != nil {
		return err
	}
	for _, r := range registries {
		if err := errors.Join(os.WriteFile(r.configFile(s.dir), []byte(r.config(s.dir)), 0o600), s.write("certs.d/"+r.host+"/hosts.toml", r.hosts(s.RegistryCA()))); err != nil {
			return err
		}
	}
	return errors.Join(
		writeJSON(s.path("programs.json"), programs),
		s.write("hosts", hosts),
		s.write("resolv.conf", resolvConf),
		s.write("registry.pem", string(cert)),
		s.write("registry.key", string(key)),
		s.write("htpasswd", logins),
		s.write("cni/10-pods.conflist", cniConfig),
		s.write("containerd.toml", containerdConfig(s.dir, programs["runc"])),
		s.write("kubelet.yaml", kubeletConfig),
	)
}

// Stop ends all that runs in the site and removes its folder. A second call does
// nothing.
func (s *Site) Stop() error {
	if s.processes == nil {
		return os.RemoveAll(s.dir)
	}
	return s.processes.stop()
}

// Dir is the site's folder, which both sides of the gap see: it is how things are
// carried. It goes with the site.
func (s *Site) Dir() string { return s.dir }

// RegistryCA is the path of the certificate that vouches for the site's registries.
func (s *Site) RegistryCA() string { return s.path("registry.pem") }

// Kubeconfig is the path of a kubeconfig file that is good inside the site.
func (s *Site) Kubeconfig() string { return s.path("cluster/kubeconfig") }

func (s *Site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Site) write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(s.path(name)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(s.path(name), []byte(text), 0o600)
}
