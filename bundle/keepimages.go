package bundle

import "slices"

// KeptImages is the previous lock less the images that are to be resolved anew:
// those of the components in Update. Nil when nothing is kept.
func (o LockOptions) KeptImages() *Lock {
	if o.Previous == nil || o.UpdateAll {
		return nil
	}
	kept := *o.Previous
	kept.Images = slices.DeleteFunc(slices.Clone(kept.Images), func(i LockedImage) bool {
		return slices.ContainsFunc(i.Components, func(c string) bool { return slices.Contains(o.Update, c) })
	})
	return &kept
}
