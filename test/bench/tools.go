//go:build linux

package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// A tool is a program and how it is called. What it can't do is nil.
type tool struct {
	name    string
	program string
	version []string
	copy    func(from, to string) []string // between registries, each HOST/REPOSITORY:TAG
	save    func(from, file string) []string
	load    func(file, to string) []string
}

// ours is the first of all tools.
const ours = "bundle"

// tools are ours and those that it is measured against, each with the switches
// that make it carry every image of an index, without TLS, and eight things at a
// time where it can be told.
func tools() []tool {
	return []tool{{
		name: ours, program: "bundle", version: []string{"version"},
		copy: func(from, to string) []string { return []string{"copy", "oci://" + from, "oci://" + to} },
		save: func(from, file string) []string { return []string{"save", "oci://" + from, file} },
		load: func(file, to string) []string { return []string{"load", file, "oci://" + to} },
	}, {
		name: "oras", program: "oras", version: []string{"version"},
		copy: func(from, to string) []string {
			return []string{"cp", "-r", "--no-tty", "--concurrency", "8", "--from-plain-http", "--to-plain-http", from, to}
		},
		save: func(from, file string) []string {
			return []string{"backup", "--no-tty", "--concurrency", "8", "--plain-http", "--output", file, from}
		},
		load: func(file, to string) []string {
			return []string{"restore", "--no-tty", "--concurrency", "8", "--plain-http", "--input", file, to}
		},
	}, {
		name: "crane", program: "crane", version: []string{"version"},
		copy: func(from, to string) []string { return []string{"copy", "--jobs", "8", from, to} },
	}, {
		name: "regctl", program: "regctl", version: []string{"version"},
		copy: func(from, to string) []string { return append(regctlHosts(from, to), "image", "copy", from, to) },
		save: func(from, file string) []string { return append(regctlHosts(from), "image", "export", from, file) },
		load: func(file, to string) []string { return append(regctlHosts(to), "image", "import", to, file) },
	}, {
		name: "skopeo", program: "skopeo", version: []string{"--version"},
		copy: func(from, to string) []string {
			return skopeo("docker://"+from, "docker://"+to, "--src-tls-verify=false", "--dest-tls-verify=false")
		},
		save: func(from, file string) []string {
			return skopeo("docker://"+from, "oci-archive:"+file+":"+from[strings.LastIndex(from, ":")+1:], "--src-tls-verify=false")
		},
		load: func(file, to string) []string {
			return skopeo("oci-archive:"+file, "docker://"+to, "--dest-tls-verify=false")
		},
	}}
}

func skopeo(from, to string, flags ...string) []string {
	return append([]string{"--insecure-policy", "copy", "--all", "--preserve-digests", from, to}, flags...)
}

// regctlHosts says that hosts are spoken to without TLS.
func regctlHosts(references ...string) []string {
	var flags []string
	for _, reference := range references {
		host, _, _ := strings.Cut(reference, "/")
		flags = append(flags, "--host", "reg="+host+",tls=disabled")
	}
	return flags
}

// find is the path of a program: in a folder, else in PATH.
func find(folder, program string) (string, error) {
	if path, err := exec.LookPath(filepath.Join(folder, program)); err == nil {
		return path, nil
	}
	return exec.LookPath(program)
}

var versionNumber = regexp.MustCompile(`v?\d+\.\d+\.\d+\S*`)

// versionOf is what a program calls its version.
func versionOf(ctx context.Context, program string, args ...string) string {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if found := versionNumber.Find(out); err == nil && found != nil {
		return string(found)
	}
	return "unknown version"
}
