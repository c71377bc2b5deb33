package main

import (
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/door"
	"waybill/registry"
)

// A copyResult is what `copy` says in JSON.
type copyResult struct {
	Source string `json:"source"`
	Digest string `json:"digest"`
	door.Verification
	Content      registry.Amount         `json:"content"` // all that is to be at each destination
	Undetermined []registry.Undetermined `json:"undetermined"`
	Destinations []copiedTo              `json:"destinations"`
	Expanded     *expandedTo             `json:"expanded,omitempty"` // with --expand
}

// copiedTo is what became of one destination.
type copiedTo struct {
	Reference    string               `json:"reference"`
	Repository   string               `json:"repository"`
	Tag          string               `json:"tag"`
	Digest       string               `json:"digest"`
	DryRun       bool                 `json:"dryRun,omitempty"`
	Copied       registry.Amount      `json:"copied"`
	Mounted      registry.Amount      `json:"mounted"`
	Skipped      registry.Amount      `json:"skipped"`
	Assumed      int                  `json:"assumed,omitempty"` // manifests that stand for all below them: --assume-complete
	Signatures   attachmentCount      `json:"signatures"`
	Attachments  attachmentCount      `json:"attachments"` // the signatures among them
	Anchors      int                  `json:"anchors,omitempty"`
	LeftOut      []ocispec.Descriptor `json:"leftOut,omitempty"`
	Resumed      *registry.Amount     `json:"resumed,omitempty"` // of copied: what an interrupted run had left
	There        bool                 `json:"there,omitempty"`   // the file was there, whole, and was not written
	Verification *door.Verification   `json:"target,omitempty"`  // of what is there now
	Volumes      []packedFile         `json:"volumes,omitempty"` // that were written, or would be
	Delta        *deltaResult         `json:"delta,omitempty"`   // what was left out
	Error        string               `json:"error,omitempty"`
}

// attachmentCount says how many there are at the source, and what became of them.
type attachmentCount struct {
	Found  int `json:"found"`
	Copied int `json:"copied"` // they were not there
	United int `json:"united"` // added to others that were there
	There  int `json:"there"`
}

func countAttachments(all []registry.Attachment, which func(registry.Attachment) bool) attachmentCount {
	var n attachmentCount
	for _, a := range all {
		if !which(a) {
			continue
		}
		n.Found++
		switch a.State {
		case registry.AttachmentCopied:
			n.Copied++
		case registry.AttachmentUnited:
			n.United++
		case registry.AttachmentThere:
			n.There++
		}
	}
	return n
}

func (c copier) result() copyResult {
	result := copyResult{
		Source: c.source.Location.String(), Digest: c.source.Root.Digest.String(), Verification: c.source.Verification,
		Undetermined: []registry.Undetermined{},
	}
	if c.plan == nil { // no destination takes it, so that it was not read
		return result
	}
	result.Content = c.plan.Size()
	result.Undetermined = append(result.Undetermined, c.plan.Undetermined()...)
	return result
}

func (at *copiedTo) take(r registry.CopyResult) {
	at.Copied, at.Mounted, at.Skipped, at.LeftOut, at.Anchors, at.Assumed = r.Copied, r.Mounted, r.Skipped, r.LeftOut, r.Anchors, r.Assumed
	at.Signatures = countAttachments(r.Attachments, registry.Attachment.IsSignature)
	at.Attachments = countAttachments(r.Attachments, func(registry.Attachment) bool { return true })
}

// wasThere is the result of a copy to a file that turned out to have all of it.
func wasThere(r registry.CopyResult, whole registry.Amount) registry.CopyResult {
	r.Copied, r.Skipped = registry.Amount{}, whole
	r.Attachments = slices.Clone(r.Attachments)
	for i := range r.Attachments {
		if a := &r.Attachments[i]; a.State == registry.AttachmentCopied || a.State == registry.AttachmentUnited {
			a.State = registry.AttachmentThere
		}
	}
	return r
}
