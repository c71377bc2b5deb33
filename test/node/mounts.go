//go:build linux

package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mount gives the site a view of the files of its own: what programs keep under
// /run, /var/lib and /var/log lands in the site's folder or nowhere, names are
// looked up as the site knows them, and no mount reaches the machine around it.
func mount(dir string) error {
	for _, hidden := range []string{"/run/", "/var/lib/", "/var/log/"} {
		if strings.HasPrefix(dir, hidden) {
			return fmt.Errorf("the site's folder is %s, which the site hides: set TMPDIR to another place than %s", dir, hidden)
		}
	}
	err := errors.Join(
		remount("/", unix.MS_REC|unix.MS_PRIVATE),
		mountNew("proc", "/proc"),
		mountNew("tmpfs", "/run"),
		bind(filepath.Join(dir, "lib"), "/var/lib"),
		bind(filepath.Join(dir, "log"), "/var/log"),
		bind(filepath.Join(dir, "hosts"), "/etc/hosts"),
		replace(filepath.Join(dir, "resolv.conf"), "/etc/resolv.conf"),
	)
	if err != nil {
		return err
	}
	// kubelet's and containerd's mounts are to be seen by containers, and by nobody outside.
	return remount("/", unix.MS_REC|unix.MS_SHARED)
}

func remount(target string, flags uintptr) error {
	if err := unix.Mount("", target, "", flags, ""); err != nil {
		return fmt.Errorf("changing mount %s: %w", target, err)
	}
	return nil
}

func mountNew(kind, target string) error {
	if err := unix.Mount(kind, target, kind, 0, ""); err != nil {
		return fmt.Errorf("%s on %s: %w", kind, target, err)
	}
	return nil
}

func bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("%s on %s: %w", source, target, err)
	}
	return nil
}

// replace binds a file over another one, which may be a link to where /run was.
func replace(source, target string) error {
	link, err := os.Readlink(target)
	if err != nil {
		return bind(source, target)
	}
	if !filepath.IsAbs(link) {
		link = filepath.Join(filepath.Dir(target), link)
	}
	if _, err := os.Stat(link); err == nil {
		return bind(source, link)
	}
	data, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	return os.WriteFile(link, data, 0o644)
}
