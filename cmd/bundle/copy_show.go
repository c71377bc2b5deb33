package main

import (
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/ui"
	"waybill/registry"
)

// showCopy adds the hooks that show how far a copy is.
func showCopy(progress *ui.Progress, opts registry.CopyOptions) registry.CopyOptions {
	opts.OnPlanned = progress.Total
	opts.OnStart = func(desc ocispec.Descriptor, of string) { progress.Start(objectName(desc, of)) }
	opts.OnBytes = func(n int) { progress.Advance(int64(n)) }
	opts.OnDone = func(desc ocispec.Descriptor, of string, sent int64) {
		progress.Advance(desc.Size - sent) // of what was there, nothing was sent
		progress.Finish(objectName(desc, of))
	}
	return opts
}

// noteCopy says what a copy did.
func noteCopy(progress *ui.Progress, result registry.CopyResult) {
	progress.Notef("%s sent", ui.Size(result.Copied.Bytes))
	if n := result.Skipped.Objects; n > 0 {
		progress.Notef("%d there already", n)
	}
	if n := result.Assumed; n > 0 {
		progress.Notef("%s taken for complete", ui.Count(n, "manifest"))
	}
	if n := result.Mounted.Objects; n > 0 {
		progress.Notef("%d taken over within the registry", n)
	}
	found := countAttachments(result.Attachments, registry.Attachment.IsSignature)
	progress.Notef("%s (%d new)", ui.Count(found.Found, "signature"), found.Copied+found.United)
	if others := len(result.Attachments) - found.Found; others > 0 {
		progress.Notef("%s", ui.Count(others, "other attachment"))
	}
}

func objectName(desc ocispec.Descriptor, of string) string {
	if of == "" {
		return desc.Digest.String()
	}
	return desc.Digest.String() + " (" + of + ")"
}
