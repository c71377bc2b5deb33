// Package ui is how both programs speak to people: the commentary on stderr,
// errors with what to do next, and the exit codes.
//
// It knows the error types of every room and nothing else of them. The doors
// are [Talk], for the commentary, and [Report], for the end.
package ui

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"waybill/bundle"
	"waybill/charts"
	"waybill/internal/disk"
	"waybill/internal/door"
	"waybill/registry"
	"waybill/rollout"
	"waybill/signing"
)

// The exit codes of both programs.
const (
	ExitDone        = 0
	ExitFailed      = 1   // failed, cause in the message
	ExitUsage       = 2   // flags, locations, files that don't parse
	ExitRefused     = 3   // verification refused, no policy included
	ExitNotFound    = 4   // a registry says not found or denied; a name that no record has
	ExitDiffers     = 5   // differences
	ExitCorrupt     = 6   // content corrupt, incomplete, or newer than the reader
	ExitPlan        = 7   // refused by the plan, nothing was changed in the cluster
	ExitHeld        = 8   // someone else holds the lease
	ExitPartial     = 9   // something was changed and something failed
	ExitUnreachable = 10  // not reachable, and nothing changed in the cluster
	ExitInterrupted = 130 // interrupted
)

// A UsageError is an error of the command line that carries its own hint.
type usageError interface {
	error
	UsageHint() string
}

// A coder is an error of a verb that knows its exit code, for results that
// are a code and not a failure of a room.
type coder interface{ ExitCode() int }

// A silent error is a result that only the exit code tells: what there is to
// say was printed.
type silent interface{ Silent() }

// A hinter is an error of a verb that knows what to type next.
type hinter interface{ Hint() string }

// Report says what went wrong, and what to type next, on w as the named
// program, and returns the exit code. No error is [ExitDone].
func Report(ctx context.Context, w io.Writer, name string, err error) int {
	if err == nil {
		return ExitDone
	}
	code, hint := classify(ctx, name, err)
	var s silent
	if errors.As(err, &s) {
		return code
	}
	text := err.Error()
	var unfinished *registry.UnfinishedError
	isUnfinished := errors.As(err, &unfinished)
	switch {
	case code != ExitInterrupted:
	case errors.As(err, new(*rollout.InterruptedError)):
		text = "interrupted: " + text
	case isUnfinished:
		text = "interrupted; " + unfinished.Kept()
	default:
		text = "interrupted" // what was cancelled by it says nothing more
	}
	if isUnfinished {
		hint = unfinishedHint(code, hint, err)
	}
	writeLines(w, name, "error: ", text)
	if hint != "" {
		writeLines(w, name, "hint: ", hint)
	}
	return code
}

// unfinishedHint says how an archive that could not be written to its end is gone
// on with.
func unfinishedHint(code int, hint string, err error) string {
	const again = "run the same command again and it goes on from there; to give up, remove both files"
	switch {
	case code == ExitInterrupted || hint == "":
		hint = again
	default:
		hint += "\n" + again
	}
	if disk.IsFull(err) {
		return "make room on the disk first\n" + hint
	}
	return hint
}

// ExitCode returns the code that [Report] would return.
func ExitCode(ctx context.Context, err error) int {
	if err == nil {
		return ExitDone
	}
	code, _ := classify(ctx, "", err)
	return code
}

// classify finds the exit code and the hint of an error. Rooms are asked in
// the order in which the checks run.
func classify(ctx context.Context, name string, err error) (int, string) {
	if code, hint, ok := ofRollout(name, err); ok {
		return code, hint
	}
	if ctx.Err() != nil {
		return ExitInterrupted, "nothing is left half-done; running it again is right"
	}
	var (
		c coder
		h hinter
	)
	if errors.As(err, &c) {
		if errors.As(err, &h) {
			return c.ExitCode(), h.Hint()
		}
		return c.ExitCode(), ""
	}
	for _, of := range []func(string, error) (int, string, bool){ofUsage, ofChartSources, ofCarried, ofPlaces, ofAnswers, ofSigning, ofBundle, ofCharts} {
		if code, hint, ok := of(name, err); ok {
			return code, hint
		}
	}
	if errors.As(err, &h) {
		return ExitFailed, h.Hint()
	}
	return ExitFailed, ""
}

func ofUsage(_ string, err error) (int, string, bool) {
	var usage usageError
	if errors.As(err, &usage) {
		return ExitUsage, usage.UsageHint(), true
	}
	var policy *door.PolicyError
	if errors.As(err, &policy) {
		_, hint, _ := ofSigning("", err)
		return ExitUsage, hint, true
	}
	return 0, "", false
}

// ofCarried explains what archives, volumes and manifests are not, and what has no room.
func ofCarried(_ string, err error) (int, string, bool) {
	var (
		kind     *registry.ManifestTypeError
		volumes  *registry.VolumesError
		space    *registry.SpaceError
		fileSize *registry.FileSizeError
	)
	switch {
	case errors.As(err, &kind) && kind.Schema1():
		return ExitCorrupt, "pull it and push it again with a current tool, and copy that", true
	case errors.As(err, &kind):
		return ExitCorrupt, "copy it with the tool that made it, or name a manifest or an index of OCI or Docker", true
	case errors.As(err, &volumes):
		return ExitCorrupt, toMakeAgain(volumes), true
	case errors.As(err, new(*registry.DeltaError)):
		return ExitCorrupt, "load the base first, or name an archive or a folder that has it: `bundle load FILE.tar DESTINATION --base BASE.tar`", true
	case errors.As(err, new(*registry.SplitError)):
		return ExitUsage, "", true
	case errors.As(err, &space):
		return ExitFailed, "make room there, or write to another disk; nothing was written", true
	case errors.As(err, &fileSize):
		return ExitFailed, "--split " + fileSize.Split() + " of `bundle save` writes volumes that fit; nothing was written", true
	}
	return 0, "", false
}

// ofPlaces explains places that can't be what they were named for.
func ofPlaces(_ string, err error) (int, string, bool) {
	var (
		targets  *registry.TargetsError
		shape    *registry.ShapeError
		location *registry.LocationError
	)
	switch {
	case errors.As(err, new(*registry.OverrideError)):
		return ExitUsage, "an override is UPSTREAM=CACHE, each HOST or HOST/PATH", true
	case errors.As(err, &targets):
		return ExitNotFound, strings.Join(append([]string{"once they are there and may be written to, run the same command again"}, targets.Commands()...), "\n"), true
	case errors.As(err, new(*registry.PlacementError)):
		return ExitUsage, "name a prefix at a registry that takes longer paths", true
	case errors.As(err, &shape) && shape.Nested:
		return ExitFailed, "a bundle built with `shape: flat` in its release file, or for one platform, has no index inside its index", true
	case errors.As(err, &shape):
		return ExitFailed, "no other form of a bundle avoids that: use another registry, or carry it as an archive (FILE.tar)", true
	case errors.As(err, new(*registry.TagError)):
		return ExitUsage, "", true
	case errors.As(err, &location):
		if location.Meant != "" || location.Err != nil { // the message says what to do
			return ExitUsage, "", true
		}
		return ExitUsage, "a location is oci://HOST/PATH:TAG, a FILE.tar or a FOLDER", true
	case errors.As(err, new(*registry.ChoiceError)):
		return ExitUsage, "choose one of them with #NAME, :TAG or @sha256:…", true
	}
	return 0, "", false
}

const toLogIn = "log in (`bundle login HOST` to a registry, `helm repo add` or netrc for a chart repository)"

// ofAnswers explains what places answered, and what they hold.
func ofAnswers(_ string, err error) (int, string, bool) {
	var (
		notFound    *registry.NotFoundError
		denied      *registry.DeniedError
		unreachable *registry.UnreachableError
		content     *registry.ContentError
	)
	switch {
	case errors.As(err, new(*registry.LeftOutError)):
		return ExitFailed, "the registry wants every layer: `bundle build`, or the copy of what is no bundle, carries it with --foreign-layers include", true
	case errors.As(err, &notFound) && isAddress(notFound.Ref):
		return ExitNotFound, "look at the spelling of the address, and whether it is a chart repository's: there index.yaml lies below it", true
	case errors.As(err, &notFound):
		return ExitNotFound, "look at the spelling; `bundle list` of the repository shows what is there", true
	case errors.As(err, &denied) && denied.Rejected:
		return ExitNotFound, "look at user and password, and " + toLogIn + " anew", true
	case errors.As(err, &denied):
		return ExitNotFound, toLogIn + ", or ask for the right to read or write there", true
	case errors.As(err, &unreachable):
		code, hint := ofUnreachable(unreachable)
		return code, hint, true
	case errors.As(err, &content) && errors.Is(err, fs.ErrNotExist):
		return ExitCorrupt, "name a folder or an archive that holds a bundle; `bundle build -t FOLDER` writes one", true
	case errors.As(err, &content) && errors.Is(err, registry.ErrUnfinished):
		return ExitCorrupt, "run the command again that was writing it: it goes on from there", true
	case errors.As(err, &content):
		return ExitCorrupt, cmp.Or(content.Advice, "copy it again from where it came"), true
	case errors.As(err, new(*registry.AddressError)):
		return ExitFailed, "running it again changes nothing, nor does --foreign-layers, which leaves manifests as they are: " +
			"ask who runs the registry to allow the addresses (CNCF Distribution: `validation.manifests.urls.allow`), use another registry, or carry it as an archive (FILE.tar)", true
	case errors.As(err, new(*registry.BusyError)):
		return ExitFailed, "wait until the other process is done", true
	case errors.As(err, new(*registry.CredentialsError)):
		return ExitNotFound, "mend the credentials file or its helper, or name another file with --registry-config", true
	}
	return 0, "", false
}

// isAddress says whether a place is a file of a web server.
func isAddress(place string) bool {
	return strings.HasPrefix(place, "https://") || strings.HasPrefix(place, "http://")
}

const onceItAnswers = "running it again is right once the host answers"

// ofUnreachable tells what may pass by itself from what has to be mended.
func ofUnreachable(err *registry.UnreachableError) (int, string) {
	switch {
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return ExitUnreachable, "--ca-file FILE names the authority that vouches for the host, besides the system's"
	case errors.Is(err, http.ErrSchemeMismatch):
		return ExitUnreachable, "--plain-http-host " + err.Host + " speaks to it without TLS"
	case err.NeedsCertificate():
		return ExitUnreachable, "--cert-file and --key-file name the certificate to show"
	case err.Why == registry.WhyPage:
		return ExitUnreachable, "look at the host's name; a network that wants a login first, or a proxy, may answer in its place: once it lets you through, run it again"
	case err.Why == registry.WhyWrong:
		return ExitFailed, "running it again changes nothing: ask who runs the host, or name another"
	}
	return ExitUnreachable, onceItAnswers
}

// toMakeAgain says how volumes come by that are not as they should be.
func toMakeAgain(e *registry.VolumesError) string {
	lines := e.Again()
	if len(lines) == 0 {
		return "name the volumes of one archive, each once"
	}
	return strings.Join(append([]string{"copy it again from where it came, or make it again where SOURCE can be reached:"}, lines...), "\n")
}

func ofSigning(name string, err error) (int, string, bool) {
	var (
		content  *signing.ContentError
		refused  *signing.RefusedError
		policy   *signing.PolicyError
		key      *signing.KeyError
		noPolicy *door.NoPolicyError
	)
	switch {
	case errors.As(err, &content):
		return ExitCorrupt, "copy it again from where it came", true
	case errors.As(err, &noPolicy):
		file := "or --policy FILE"
		if strings.Contains(name, "apply") { // bundle has no site file
			file = "--policy FILE or the site file's verify"
		}
		return ExitRefused, "name who may sign with --key FILE (or --certificate-identity and --certificate-oidc-issuer), " + file + "; --policy none verifies nothing and is recorded", true
	case errors.As(err, &refused) && len(refused.Found) == 0 && len(refused.Denied) == 0:
		return ExitRefused, "a tool that copied it may have left its signatures behind: copy the tag " + signing.SignatureTag(refused.Digest) + " (or the referrers) too; one platform's manifest may be signed by the index that lists it: verify that", true
	case errors.As(err, &refused):
		return ExitRefused, "", true
	case errors.As(err, &policy) && policy.NeedsRoot:
		return ExitUsage, "--trusted-root FILE names it, trustedRoot: in a policy file", true
	case errors.As(err, &policy):
		return ExitUsage, "", true
	case errors.As(err, &key):
		return ExitUsage, "", true
	}
	return 0, "", false
}

func ofBundle(_ string, err error) (int, string, bool) {
	var (
		file    *bundle.FileError
		lint    *bundle.LintError
		stale   *bundle.StaleError
		unknown *bundle.UnknownComponentError
		content *bundle.ContentError
		newer   *bundle.NewerError
		roles   *bundle.UnknownRoleError

		expand     *bundle.ExpandError
		version    *bundle.VersionError
		annotation *bundle.AnnotationError
	)
	switch {
	case errors.As(err, &file):
		return ExitUsage, "", true
	case errors.As(err, &expand):
		return ExitFailed, "where names are too long, a shorter prefix helps; the bundle itself can be copied without --expand", true
	case errors.As(err, &version), errors.As(err, &annotation):
		return ExitUsage, "", true
	case errors.Is(err, bundle.ErrNoVersion):
		return ExitUsage, "write version: into the release file, or give --version", true
	case errors.As(err, &unknown):
		return ExitUsage, "", true
	case errors.As(err, &lint):
		return ExitFailed, "`bundle lint` shows everything found", true
	case errors.As(err, &stale) && stale.ChartsOnly:
		return ExitDiffers, "`bundle lock` locks the images too; --no-images takes charts alone, as they are locked", true
	case errors.As(err, &stale) && stale.ImagesToo:
		return ExitDiffers, "leave out --no-images, or `bundle lock --no-images` locks the charts alone", true
	case errors.As(err, &stale):
		return ExitDiffers, "`bundle lock` makes the lock agree with the release file", true
	case errors.As(err, &newer), errors.As(err, &roles):
		return ExitCorrupt, "use a newer waybill", true
	case errors.Is(err, bundle.ErrNotBundle):
		return ExitCorrupt, "`bundle inspect` shows what it is; name a bundle here, which `bundle build` makes", true
	case errors.As(err, &content):
		return ExitCorrupt, "", true
	}
	return 0, "", false
}

func ofCharts(_ string, err error) (int, string, bool) {
	var (
		unreachable *charts.UnreachableError
		source      *charts.SourceError
		layer       *charts.LayerError
		invalid     *charts.InvalidError
	)
	switch {
	case errors.As(err, &unreachable):
		return ExitUnreachable, "running it again is right once the cluster answers", true
	case errors.As(err, &source), errors.As(err, &layer):
		return ExitUsage, "", true
	case errors.As(err, &invalid):
		return ExitCorrupt, "", true
	}
	return 0, "", false
}

// ofChartSources is for what repositories, registries and git say of a chart. It
// is asked before the registry, whose errors these may wrap.
func ofChartSources(_ string, err error) (int, string, bool) {
	var (
		moved      *charts.MovedError
		missing    *charts.NotFoundError
		repository *charts.RepositoryError
		ambiguous  *charts.AmbiguousError
		version    *charts.VersionError
		manifest   *charts.ManifestError
		outOfSync  *charts.OutOfSyncError
		git        *charts.GitError

		unreachable *registry.UnreachableError
	)
	switch {
	case errors.As(err, &moved):
		return ExitCorrupt, "somebody published it anew under the same version: ask them why; `" + strings.TrimSpace("bundle lock --update "+strings.Join(movedComponents(err), " ")) + "` locks what is served now", true
	case errors.As(err, &missing):
		return ExitNotFound, "", true
	case errors.As(err, &ambiguous):
		return ExitFailed, "", true
	case errors.As(err, &version), errors.As(err, &manifest), errors.As(err, &outOfSync):
		return ExitUsage, "", true
	case errors.As(err, &git) && git.Denied:
		return ExitNotFound, "a login for https:// is looked for in netrc, one for ssh:// is a key of the ssh agent", true
	case errors.As(err, &unreachable):
		code, hint := ofUnreachable(unreachable)
		return code, hint, true
	case errors.As(err, &git) && git.Unreachable:
		return ExitUnreachable, onceItAnswers, true
	case errors.As(err, &repository):
		return ExitCorrupt, "", true
	}
	return 0, "", false
}

// movedComponents names the components whose chart is not what is locked.
func movedComponents(err error) []string {
	switch e := err.(type) { //nolint:errorlint // walks the tree itself
	case interface{ Unwrap() []error }:
		var names []string
		for _, one := range e.Unwrap() {
			names = append(names, movedComponents(one)...)
		}
		return names
	case *bundle.ComponentError:
		var moved *charts.MovedError
		if errors.As(err, &moved) {
			return []string{e.Component}
		}
	case interface{ Unwrap() error }:
		return movedComponents(e.Unwrap())
	}
	return nil
}

func ofRollout(name string, err error) (int, string, bool) {
	var (
		interrupted *rollout.InterruptedError
		partial     *rollout.PartialError
		refused     *rollout.RefusedError
		held        *rollout.HeldError
		cluster     *rollout.ClusterError
		notFound    *rollout.NotFoundError
		downgrade   *rollout.DowngradeError
		unknown     *rollout.UnknownError
		usage       *rollout.UsageError
		noSite      *rollout.NoSiteError
		newer       *rollout.NewerRecordError
		record      *rollout.RecordError
	)
	switch {
	case errors.As(err, &interrupted):
		return ExitInterrupted, "the attempt is recorded; running it again goes on from here", true
	case errors.As(err, &partial):
		return ExitPartial, "`" + name + " status " + partial.Outcome.Instance + "` shows what stands; running the same command again goes on from here", true
	case errors.As(err, &refused):
		return ExitPlan, "nothing was changed in the cluster", true
	case errors.As(err, &held):
		return ExitHeld, "wait until it is free; `" + name + " status " + held.Instance + "` shows how far it is", true
	case errors.As(err, &cluster):
		return ExitUnreachable, "nothing was changed; running it again is right once the cluster answers", true
	case errors.As(err, &notFound):
		return ExitNotFound, "`" + name + " status` lists what is installed", true
	case errors.As(err, &noSite):
		return ExitNotFound, "", true
	case errors.As(err, &downgrade):
		return ExitRefused, "--allow-downgrade installs it all the same", true
	case errors.As(err, &unknown), errors.As(err, &usage):
		return ExitUsage, "", true
	case errors.As(err, &newer):
		return ExitCorrupt, "use a newer waybill", true
	case errors.As(err, &record):
		return ExitCorrupt, "", true
	}
	return 0, "", false
}
