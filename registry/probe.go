package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// Probe finds out whether locations can be written to, before the bulk is sent.
// Each repository is asked once for an upload session, which is cancelled again;
// archives and layouts are looked at.
//
// A *TargetsError lists all that must be created or granted. Other errors, joined
// with it: *UnreachableError, *CredentialsError, *ResponseError, *LocationError.
//
// What shapes of manifests a registry takes is a second question:
// [Client.ProbeShape].
func (c *Client) Probe(ctx context.Context, locations ...Location) error {
	found := c.ProbeEach(ctx, locations...)
	if err := ctx.Err(); err != nil {
		return err
	}
	var refused []Target
	var failed []error
	told := map[error]bool{} // one repository may be at several places
	for _, err := range found {
		var targets *TargetsError
		switch {
		case err == nil || told[err]:
		case errors.As(err, &targets):
			refused = append(refused, targets.Targets...)
		default:
			failed = append(failed, err)
		}
		if err != nil {
			told[err] = true
		}
	}
	slices.SortFunc(failed, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if len(refused) == 0 {
		return errors.Join(failed...)
	}
	slices.SortFunc(refused, func(a, b Target) int { return strings.Compare(a.Name(), b.Name()) })
	return errors.Join(append([]error{&TargetsError{Targets: refused}}, failed...)...)
}

// ProbeEach is [Client.Probe] for who goes on with those that can be written to:
// it returns the error of each location, nil for one that is fine.
func (c *Client) ProbeEach(ctx context.Context, locations ...Location) []error {
	return c.eachPlace(locations, checkPlace, func(l Location) error {
		target, err := c.remote(l.Ref).probe(ctx)
		if err == nil && target != nil {
			err = &TargetsError{Targets: []Target{*target}}
		}
		return err
	})
}

// eachPlace asks each repository once, several at the same time, and every local
// place, and returns what is found in the order of locations.
func (c *Client) eachPlace(locations []Location, local, remote func(Location) error) []error {
	found := make([]error, len(locations))
	first := map[string]int{}
	group := errgroup.Group{}
	group.SetLimit(c.settings.Concurrency)
	for i, l := range locations {
		if l.Kind != Registry {
			found[i] = local(l)
			continue
		}
		if _, asked := first[l.Ref.Name()]; asked {
			continue
		}
		first[l.Ref.Name()] = i
		group.Go(func() error {
			found[i] = remote(l)
			return nil
		})
	}
	_ = group.Wait()
	for i, l := range locations {
		if l.Kind == Registry {
			found[i] = found[first[l.Ref.Name()]]
		}
	}
	return found
}

// A TargetsError lists the repositories that can't be written to, found before
// anything was uploaded.
type TargetsError struct {
	Targets []Target // by name
}

// A Target is a repository that can't be written to.
type Target struct {
	Host, Repository string
	State            TargetState
	Status           int    // of the answer; 0: the connection was closed
	Reason           string // what the registry says
	Credentials      string // where the login came from, or where none was found
}

// Name is the repository with its host.
func (t Target) Name() string { return t.Host + "/" + t.Repository }

// TargetState is what is to be done about a repository.
type TargetState int

// What a registry tells of a repository that it takes nothing for.
const (
	TargetAbsent  TargetState = iota // it isn't there
	TargetClosed                     // the connection is closed on who asks, as some registries do for what isn't there
	TargetDenied                     // the right to write is missing
	TargetUnclear                    // the login is good, and the answer does not tell absent from denied
	TargetLogin                      // a login is missing, or it is not good for anything
	TargetName                       // the registry takes no repository of that name
)

// todo says it in words, for the names that follow.
func (t Target) todo() string {
	why := t.Reason
	if t.Status != 0 {
		why = fmt.Sprintf("%d: %s", t.Status, t.Reason)
	}
	switch t.State {
	case TargetAbsent:
		return fmt.Sprintf("to create (%s)", why)
	case TargetClosed:
		return "to create, probably (the connection is closed on who asks, and the registry answers otherwise)"
	case TargetDenied:
		return fmt.Sprintf("to grant the right to push for (%s; %s)", why, t.Credentials)
	case TargetName:
		return fmt.Sprintf("to name otherwise, shorter or with fewer parts (%s)", why)
	case TargetUnclear:
		return fmt.Sprintf("to create, or to grant the right to push for (%s; the login is good: %s)", why, t.Credentials)
	}
	return fmt.Sprintf("to log in for (%s; %s)", why, t.Credentials)
}

// Error has a line for each thing to do, the repositories at its end.
func (e *TargetsError) Error() string {
	var order []string
	names := map[string][]string{}
	for _, t := range e.Targets {
		todo := t.todo()
		if names[todo] == nil {
			order = append(order, todo)
		}
		names[todo] = append(names[todo], t.Name())
	}
	slices.Sort(order)
	lines := []string{fmt.Sprintf("%d of the target repositories can't be written to; nothing was uploaded there", len(e.Targets))}
	for _, todo := range order {
		lines = append(lines, todo+": "+strings.Join(names[todo], " "))
	}
	return strings.Join(lines, "\n")
}

// Commands are what can be typed to create the repositories, where the registry
// is one that has a command for it.
func (e *TargetsError) Commands() []string {
	var commands []string
	for _, t := range e.Targets {
		region, ok := amazonRegion(t.Host)
		if ok && (t.State == TargetAbsent || t.State == TargetClosed) {
			commands = append(commands, fmt.Sprintf("aws ecr create-repository --region %s --repository-name %s", region, t.Repository))
		}
	}
	return commands
}

// amazonRegion reads ACCOUNT.dkr.ecr.REGION.amazonaws.com.
func amazonRegion(host string) (string, bool) {
	labels := strings.Split(host, ".")
	if len(labels) < 6 || labels[1] != "dkr" || labels[2] != "ecr" || labels[4] != "amazonaws" {
		return "", false
	}
	return labels[3], true
}

// probe opens an upload and takes it back.
func (p *remotePlace) probe(ctx context.Context) (*Target, error) {
	ctx = auth.AppendRepositoryScope(ctx, p.repo.Reference, auth.ActionPull, auth.ActionPush)
	u := &blobUpload{place: p}
	err := u.begin(withClosedAnswer(ctx))
	alive := isClosed(err) && p.answers(ctx)
	if alive {
		err = u.begin(withClosedAnswer(ctx)) // it may have been the way, once
	}
	if err == nil {
		u.cancel(ctx)
		return nil, nil
	}
	target := &Target{Host: p.ref.Host, Repository: p.ref.Repository, Credentials: p.client.credentials.Source(p.ref.Name())}
	var answer *errcode.ErrorResponse
	switch {
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusBadRequest || hasCode(answer, errcode.ErrorCodeNameInvalid)):
		target.State = TargetName
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound, errors.As(err, &answer) && hasCode(answer, errcode.ErrorCodeNameUnknown):
		target.State = TargetAbsent
	case errors.As(err, &answer) && answer.StatusCode == http.StatusForbidden:
		target.State = TargetDenied
	case errors.As(err, &answer) && answer.StatusCode == http.StatusUnauthorized:
		target.State = p.whoseFault(ctx)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		target.State, target.Status, target.Reason = TargetLogin, http.StatusUnauthorized, "unauthorized"
	case isClosed(err) && alive:
		target.State = TargetClosed
	default:
		return nil, p.client.translate(err, asked{ref: p.name(), host: p.ref.Host, account: p.ref.Name(), what: "opening an upload"})
	}
	if answer != nil {
		target.Status, target.Reason = answer.StatusCode, wordsOf(answer)
	}
	return target, nil
}

// whoseFault says what a 401 means: some registries answer it where a repository
// isn't there. A login that the registry itself takes is not the matter.
func (p *remotePlace) whoseFault(ctx context.Context) TargetState {
	if !p.client.credentials.Knows(p.ref.Name()) {
		return TargetLogin
	}
	resp, err := p.ping(ctx) //nolint:bodyclose // drained below
	if err != nil || resp.StatusCode == http.StatusUnauthorized {
		return TargetLogin
	}
	return TargetUnclear
}

// answers says whether the registry has an answer for other requests.
func (p *remotePlace) answers(ctx context.Context) bool {
	_, err := p.ping(ctx) //nolint:bodyclose // drained below
	return err == nil
}

// ping asks for the registry itself: distribution specification, "end-1".
func (p *remotePlace) ping(ctx context.Context) (*http.Response, error) {
	u := p.uploads()
	u.Path = "/v2/"
	req, err := http.NewRequestWithContext(auth.WithScopesForHost(ctx, p.repo.Reference.Host()), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := p.do(req)
	if err != nil {
		return nil, err
	}
	drain(resp.Body)
	return resp, nil
}

// isClosed says whether a connection was closed on a request.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}
