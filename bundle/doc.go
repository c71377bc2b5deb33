// Package bundle is the format of a release bundle.
package bundle
