//go:build linux

package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// The addresses of a site. They are in no use elsewhere that matters: the network
// is the site's own.
const (
	Name         = "node-1"    // of the one machine
	machineIP    = "10.79.0.1" // of the machine: kubelet and registry
	kubernetesIP = "10.77.0.1" // of the API server: the one that pods are told, so nothing has to be translated
	podSubnet    = "10.78.0.0/24"
	nameserver   = "192.0.2.53" // is nowhere: RFC 5737
	outside      = "outside"    // the device behind which all other hosts would be
)

// The site's two registries as they stand in references. Of the second one nothing
// is had without [User] and [Password].
const (
	Registry      = registryName + ":5443"
	LoginRegistry = registryName + ":5444"
)

// The login of [LoginRegistry].
const (
	User     = "pier"
	Password = "let-me-in"
)

const registryName = "registry.site.test"

const hosts = "127.0.0.1 localhost\n" + machineIP + " " + registryName + " " + Name + "\n"

// resolvConf has whoever asks give up soon.
const resolvConf = "nameserver " + nameserver + "\noptions timeout:1 attempts:1\n"

// connect builds the network of the site and begins to record what leaves it.
// When that fails later, the channel says so.
func connect(ip, record string) (<-chan error, error) {
	device, err := openOutside()
	if err != nil {
		return nil, err
	}
	for _, args := range []string{
		"link set lo up",
		"address add " + machineIP + "/32 dev lo",
		"address add " + kubernetesIP + "/32 dev lo",
		"-6 address add fd00:79::1/128 dev lo",
		"link set " + outside + " up",
		"route add default dev " + outside + " src " + machineIP,
		"-6 route add default dev " + outside,
	} {
		if out, err := exec.Command(ip, strings.Fields(args)...).CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("ip %s: %w: %s", args, err, out), device.Close())
		}
	}
	file, err := os.OpenFile(record, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	failed := make(chan error, 1)
	go func() { failed <- fmt.Errorf("watching the gap: %w", watch(device, file)) }()
	return failed, nil
}

// openOutside makes the device that all packets for other hosts go to: each read
// is one of them.
func openOutside() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening /dev/net/tun: %w", err)
	}
	device := os.NewFile(uintptr(fd), "/dev/net/tun")
	request, err := unix.NewIfreq(outside)
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, errors.Join(fmt.Errorf("making device %s: %w", outside, err), device.Close())
	}
	return device, nil
}
