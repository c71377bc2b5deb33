// Package charts is everything that knows Helm: how a chart is found, packed
// and read, what it renders to, how its values merge, and how it is installed
// in a cluster.
//
// A [Chart] is bytes and digests. One part of the package finds them:
// [Resolve] takes a [Source] (a folder or an archive, a chart repository, a
// registry, git, raw manifests), fetches what it depends on, and gives a chart;
// [Inputs] tells without a network whether it would be the same again; [Open]
// reads the bytes a bundle holds. Another works with a chart offline: it merges
// values as Helm does ([Merge], [Chart.Effective]), renders ([Chart.Render])
// and finds what would go wrong later ([Chart.Lint], [Chart.CheckKeys],
// [Chart.RecordSize]). The third, behind Connect, talks to a cluster.
//
// What it leaves to others: hosts are reached through a [Network] that is given
// (certificates, logins, retries are its own), but for ssh, which go-git
// speaks. A chart meets registries and bundles only as an ocispec.Descriptor
// and a content.Fetcher, so what a bundle is, where it is kept and who signed
// it are not known here. The order of several charts is the rollout's.
//
// Helm prints some of its warnings with the standard logger; a program that
// does not want them on its standard error sets log.SetOutput.
//
// The door to try first is [Resolve].
package charts
