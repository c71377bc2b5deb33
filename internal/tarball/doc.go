// Package tarball reads tars that strangers made and writes tars that are the
// same bytes on every machine.
//
// It knows the tar and gzip formats and which entries must never be believed:
// names that climb, are absolute or carry a drive, links, devices, two entries
// under one name. Nothing is ever unpacked to disk: a tar becomes a list of
// [File] in memory, bounded by [Limits]. What the files mean (a chart, a
// layer) is left to the caller.
//
// The door to try first is [ReadGzip]; [WriteGzip] is the way back.
package tarball
