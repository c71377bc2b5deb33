// Package charts is everything that knows Helm: how a chart is found, packed
// and read, what it renders to, how its values merge, and how it is installed
// in a cluster.
//
// A [Chart] is bytes and digests. The offline half of the package makes one
// ([Resolve] from a folder or an archive, [Open] from the bytes a bundle
// holds), merges values as Helm does ([Merge], [Chart.Effective]), renders
// ([Chart.Render]) and finds what would go wrong later ([Chart.Lint],
// [Chart.CheckKeys], [Chart.RecordSize]). It asks no network and no cluster.
// The other half, behind Connect, talks to a cluster.
//
// What it leaves to others: a chart meets registries and bundles only as an
// ocispec.Descriptor and a content.Fetcher, so what a bundle is, where it is
// kept and who signed it are not known here. The order of several charts is
// the rollout's.
//
// Helm prints some of its warnings with the standard logger; a program that
// does not want them on its standard error sets log.SetOutput.
//
// The door to try first is [Resolve].
package charts
