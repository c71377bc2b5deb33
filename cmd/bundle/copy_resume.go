package main

import (
	"fmt"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/ui"
	"waybill/registry"
)

// resume says what becomes of what an interrupted run has left of an archive.
func (c copier) resume(at *copiedTo) registry.ResumeHooks {
	hooks := resumeHooks(c.talk)
	said := hooks.OnResume
	hooks.OnResume = func(r registry.Resumption) {
		said(r)
		if r.Why == "" {
			at.Resumed = &r.Kept
		}
	}
	hooks.OnThere = func() { at.There = true }
	return hooks
}

// sayLeft names what an interrupted run has left beside a file that needed nothing
// of it.
func (c copier) sayLeft(d destination, files []string) {
	if len(files) > 0 {
		c.talk.Warnf("%s is there already, whole; an interrupted run of something else left %s, to go on with or to remove", d.loc.Path, strings.Join(files, " and "))
	}
}

func resumeHooks(talk *ui.Talk) registry.ResumeHooks {
	return registry.ResumeHooks{
		OnResume: func(r registry.Resumption) {
			if r.Why != "" {
				talk.Sayf("%s is begun again: %s", r.Partial, r.Why)
				return
			}
			talk.Sayf("going on with %s, which has %s%s", r.Partial, ui.Size(r.Kept.Bytes), notRead(r.Safe))
		},
		OnAltered: func(desc ocispec.Descriptor) {
			talk.Warnf("what was left of %s is not what was written, and is read again", desc.Digest)
		},
	}
}

// notRead says how much of what is there is believed to be what was written.
func notRead(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return fmt.Sprintf(", %s of it known to be on the disk and not read again", ui.Size(bytes))
}
