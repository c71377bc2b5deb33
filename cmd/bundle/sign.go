package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/bundle"
	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
)

func signCommand() *cli.Command {
	return &cli.Command{
		Name: "sign", Usage: "sign a bundle where it lies",
		ArgsUsage: "LOCATION",
		Description: `Signatures are cosign's. The root and the charts are signed unless --recursive
says otherwise; what this key has signed before is not signed again. The
password of an encrypted key comes from COSIGN_PASSWORD, else it is asked for
on a terminal. A policy (--policy, the user's or the machine's) is held against
the signatures that are there before anything is signed.

  bundle sign oci://registry.example/shop:1.0.0 --key cosign.key

Exit codes: 0 done, 1 failed, 2 usage, 3 refused by the policy, 4 registry says
not found or denied, 6 content corrupt, 10 registry not reachable.`,
		Flags: flags.Join([]cli.Flag{
			&cli.StringSliceFlag{Name: "key", EnvVars: []string{"WAYBILL_SIGNING_KEY"}, Usage: "private `KEY`: file, env://VAR, KMS URI or k8s://NS/NAME (repeatable)"},
			recursiveFlag(), signatureFormatFlag(),
		}, flags.PolicyWithoutKey(), flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			opts, err := signCommandFrom(c)
			if err != nil {
				return err
			}
			return runSign(c.Context, opts, c.App.Writer, flags.Talk(c))
		},
	}
}

// signCommandOptions is what the command line of `sign` says.
type signCommandOptions struct {
	loc      registry.Location
	settings registry.Settings
	policy   *signing.Policy // of who signed before; nil for none
	keys     []string
	sign     signOptions
	form     flags.Form
}

func signCommandFrom(c *cli.Context) (opts signCommandOptions, err error) {
	arg, err := flags.OneArg(c, "location")
	if err != nil {
		return opts, err
	}
	if opts.loc, err = registry.ParseLocation(arg); err != nil {
		return opts, err
	}
	if opts.settings, err = flags.RegistrySettings(c, opts.loc); err != nil {
		return opts, err
	}
	if opts.sign, err = signOptionsFrom(c); err != nil {
		return opts, err
	}
	if opts.form, err = flags.Output(c); err != nil {
		return opts, err
	}
	if opts.keys = c.StringSlice("key"); len(opts.keys) == 0 {
		return opts, &flags.UsageError{Message: "`bundle sign` needs a key", Hint: "--key cosign.key; `bundle keygen` makes a pair"}
	}
	opts.policy, err = flags.LoadPolicy(c, nil)
	return opts, err
}

// recursions are the choices of --recursive.
func recursions() []string { return []string{"none", "charts", "images", "all"} }

func recursiveFlag() cli.Flag {
	return &cli.StringFlag{Name: "recursive", Value: "charts", Usage: "what is signed besides the root: none, charts, images or all"}
}

func signatureFormatFlag() cli.Flag {
	return &cli.StringFlag{Name: "signature-format", Value: "tag", Usage: "how signatures are attached: tag, referrer or both"}
}

type signOptions struct {
	recursive string
	format    signing.Format
}

func signOptionsFrom(c *cli.Context) (signOptions, error) {
	opts := signOptions{recursive: c.String("recursive")}
	if !slices.Contains(recursions(), opts.recursive) {
		return opts, &flags.UsageError{Message: fmt.Sprintf("--recursive %q is unknown", opts.recursive), Hint: "it is none, charts, images or all"}
	}
	var err error
	if opts.format, err = signing.ParseFormat(c.String("signature-format")); err != nil {
		return opts, &flags.UsageError{Message: "--signature-format: " + err.Error(), Hint: "it is tag, referrer or both"}
	}
	return opts, nil
}

// A signResult is what `sign` says in JSON.
type signResult struct {
	Reference string         `json:"reference"`
	Digest    string         `json:"digest"`
	Signed    []signedDigest `json:"signed"`
}

type signedDigest struct {
	Digest        string `json:"digest"`
	AlreadySigned bool   `json:"alreadySigned"`
}

func runSign(ctx context.Context, opts signCommandOptions, out io.Writer, talk *ui.Talk) error {
	signers, err := loadSigners(ctx, opts.keys, talk)
	if err != nil {
		return err
	}
	client, err := registry.NewClient(opts.settings)
	if err != nil {
		return err
	}
	opened, err := door.Open(ctx, client, opts.loc, door.Options{Policy: opts.policy})
	if err != nil {
		return err
	}
	at, root := opened.Location, opened.Root
	talk.Sayf("%s: %s", at, opened.Verification)
	if err := opened.Close(); err != nil {
		return err
	}
	dst, err := client.Update(ctx, at)
	if err != nil {
		return err
	}
	dst.Resume = resumeHooks(talk)
	result := signResult{Reference: at.String(), Digest: root.Digest.String()}
	for _, signer := range signers {
		signed, err := signEach(ctx, dst, root, signer, opts.sign, talk)
		if err != nil {
			return errors.Join(err, dst.Abort())
		}
		result.Signed = append(result.Signed, signed...)
	}
	if err := warnMixedForms(ctx, dst, root, talk); err != nil {
		return errors.Join(err, dst.Abort())
	}
	if err := dst.Commit(ctx); err != nil {
		return err
	}
	if opts.form == flags.JSON {
		return ui.JSON(out, result)
	}
	_, err = ui.Println(out, result.Reference)
	return err
}

// warnMixedForms says when a digest has signatures of both forms: cosign then
// looks at the referrers alone, so that a signature at the tag is not seen.
func warnMixedForms(ctx context.Context, src signing.Source, root ocispec.Descriptor, talk *ui.Talk) error {
	found, err := signing.Signers(ctx, src, root)
	if err != nil {
		return err
	}
	forms := map[string]bool{}
	for _, f := range found {
		forms[f.Form] = true
	}
	if len(forms) > 1 {
		talk.Warnf("%s now has signatures at its tag and as referrers: waybill reads both, but where there is a referrer cosign 2.6 does not look at the tag, and cosign 3 only with --new-bundle-format=false", root.Digest)
	}
	return nil
}

// signEach signs the root and what opts names below it.
func signEach(ctx context.Context, dst *registry.Destination, root ocispec.Descriptor, signer *signing.Signer, opts signOptions, talk *ui.Talk) ([]signedDigest, error) {
	subjects, err := bundle.SignSubjects(ctx, dst, root, opts.recursive)
	if err != nil {
		return nil, err
	}
	key := signer.Key().Name
	talk.Sayf("signing %s with %s", ui.Count(len(subjects), "digest"), key)
	p := talk.Progress(ui.Step{Doing: "signing with " + key, Unit: "digest", Items: len(subjects), Brief: true})
	defer p.Close()
	var signed []signedDigest
	before := 0
	for _, desc := range subjects {
		p.Start(desc.Digest.String())
		result, err := signer.Sign(ctx, dst, desc, signing.SignOptions{Repository: repositoryOf(dst.Location), Format: opts.format})
		if err != nil {
			return nil, fmt.Errorf("signing %s: %w", dst.Location.WithDigest(desc.Digest), err)
		}
		signed = append(signed, signedDigest{Digest: desc.Digest.String(), AlreadySigned: result.AlreadySigned})
		p.Finish(desc.Digest.String())
		if result.AlreadySigned {
			before++
		}
	}
	if before > 0 {
		talk.Sayf("%d of %s were signed with %s before", before, ui.Count(len(subjects), "digest"), key)
	}
	return signed, nil
}

func loadSigners(ctx context.Context, references []string, talk *ui.Talk) ([]*signing.Signer, error) {
	sorted := append([]string(nil), references...)
	sort.Strings(sorted)
	var signers []*signing.Signer
	for _, reference := range sorted {
		signer, err := signing.LoadSigner(ctx, reference, func() ([]byte, error) { return password("key "+reference, talk) })
		if err != nil {
			return nil, err
		}
		signers = append(signers, signer)
	}
	return signers, nil
}

// password returns the password of the key that whose names: COSIGN_PASSWORD,
// else what is typed on the terminal.
func password(whose string, talk *ui.Talk) ([]byte, error) {
	if value, ok := os.LookupEnv("COSIGN_PASSWORD"); ok {
		return []byte(value), nil
	}
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return nil, &flags.UsageError{
			Message: "no password for " + whose + ", and no terminal to ask for it",
			Hint:    "set COSIGN_PASSWORD",
		}
	}
	defer talk.Asking()()
	ui.Printf(os.Stderr, "Password for %s: ", whose)
	defer fmt.Fprintln(os.Stderr)
	return term.ReadPassword(fd)
}
