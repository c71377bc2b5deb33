package main

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"waybill/internal/releasefile"
	"waybill/internal/ui"
	"waybill/registry"
)

// carriedAtOnce is how many images are copied at the same time; each is several
// transfers.
const carriedAtOnce = 3

// carryImages copies the images to dst byte for byte, with what hangs on them,
// before anything there names them.
func (p publisher) carryImages(ctx context.Context, dst *registry.Destination, to *published) error {
	if len(p.origins) == 0 {
		return nil
	}
	what := fmt.Sprintf("%s to %s", ui.Count(len(p.origins), "image"), dst.Location)
	step := p.talk.Progress(ui.Step{Doing: "copying " + what, Did: "copied " + what, Unit: "image", Items: len(p.origins)})
	defer step.Close()
	var mu sync.Mutex
	var attachments int
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(carriedAtOnce)
	for _, origin := range p.origins {
		group.Go(func() error {
			step.Start(origin.Reference)
			result, err := p.carry(ctx, origin, dst, step)
			if err != nil {
				return fmt.Errorf("image %s: %w", origin.Reference, err)
			}
			mu.Lock()
			defer mu.Unlock()
			attachments += len(result.Attachments)
			to.pushed(result.Copied, result.Skipped)
			to.pushed(result.Mounted, registry.Amount{})
			step.Finish(origin.Reference)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if attachments > 0 {
		step.Notef("with %s", ui.Count(attachments, "signature or other attachment"))
	}
	step.End()
	return nil
}

func (p publisher) carry(ctx context.Context, origin releasefile.ImageOrigin, dst *registry.Destination, step *ui.Progress) (registry.CopyResult, error) {
	at, err := registry.ParseLocation("oci://" + origin.Repository + "@" + origin.Carry[0].Digest.String())
	if err != nil {
		return registry.CopyResult{}, err
	}
	src, err := p.client.Open(ctx, at)
	if err != nil {
		return registry.CopyResult{}, err
	}
	defer src.Close() // only read from
	return registry.Copy(ctx, src, dst, origin.Carry, registry.CopyOptions{
		OnBytes: func(n int) { step.Advance(int64(n)) },
	})
}
