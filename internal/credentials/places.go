package credentials

import (
	"path/filepath"
	"runtime"
)

// Places say where credentials files are looked for.
type Places struct {
	ConfigFile string              // looked into alone; empty: Docker's and Helm's files are
	Home       string              // the user's home folder; empty: none are looked for there
	Getenv     func(string) string // the environment: DOCKER_CONFIG and HELM_*; nil: empty
}

func (p Places) getenv(name string) string {
	if p.Getenv == nil {
		return ""
	}
	return p.Getenv(name)
}

// dockerConfig is where docker login writes.
func (p Places) dockerConfig() string {
	if dir := p.getenv("DOCKER_CONFIG"); dir != "" {
		return filepath.Join(dir, "config.json")
	}
	if p.Home == "" {
		return ""
	}
	return filepath.Join(p.Home, ".docker", "config.json")
}

// helmConfig is where helm registry login writes.
func (p Places) helmConfig() string {
	if file := p.getenv("HELM_REGISTRY_CONFIG"); file != "" {
		return file
	}
	return p.HelmFile("registry/config.json")
}

// HelmFile is a file in Helm's configuration folder, "" when nothing says where
// that is.
func (p Places) HelmFile(name string) string {
	if dir := p.getenv("HELM_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, name)
	}
	if dir := p.getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "helm", name)
	}
	switch {
	case runtime.GOOS == "windows":
		if dir := p.getenv("APPDATA"); dir != "" {
			return filepath.Join(dir, "helm", name)
		}
		return ""
	case p.Home == "":
		return ""
	case runtime.GOOS == "darwin":
		return filepath.Join(p.Home, "Library", "Preferences", "helm", name)
	}
	return filepath.Join(p.Home, ".config", "helm", name)
}
