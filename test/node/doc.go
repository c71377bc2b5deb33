// Package node runs a site for tests: one machine of a real Kubernetes behind an
// air gap. kubelet and containerd run pods for real, and all they can reach is
// the site's own registry.
//
// The gap is made, and watched. The site is a set of namespaces of the kernel
// (network, processes, mounts) with no link to the network of the machine: it is
// carried to by file, as over any gap. Its default route leads into a device
// that the site reads itself, so whatever dials another host, or asks a name
// server for one, is not only in vain but on record: [Site.Dialled].
//
// The control plane is that of waybill/test/cluster. This package knows what a
// machine needs to run pods; it knows nothing of bundles, charts or rollouts,
// whose programs its test runs as a site's operator would, with [Site.Command].
//
// Begin with [Start], in a process whose main or TestMain calls [Main] first.
package node
