// Bundle packs a release file, every chart it names and what they need into
// one signed OCI index, and signs and verifies such bundles.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
)

func main() {
	log.SetOutput(io.Discard) // Helm warns through it; what matters comes back as findings and errors
	ctx, stop := signal.NotifyContext(context.Background(), flags.Interrupts()...)
	code := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code) // the only exit in the program
}

func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	err := flags.Run(ctx, program(), args, in, out, errOut)
	return ui.Report(ctx, errOut, flags.CalledBy(args), err)
}

func program() flags.Program {
	return flags.Program{
		Name:    "bundle",
		Usage:   "pack a release into one signed OCI index",
		Version: flags.Version,
		Now:     time.Now,
		Later: []string{
			"diff", "attest", "sbom",
			"--keyless", "--tlog-upload", "--all",
		},
		Words: map[string]string{"push": "copy", "mirror": "copy", "pull": "save, copy", "ls": "list"},
		Values: map[string][]string{
			"recursive": recursions(), "signature-format": {"tag", "referrer", "both"},
		},
		Arguments: map[string][]string{"schema": schemaKinds(), "export": exportFormats(), "completion": flags.Shells()},
		Commands: []*cli.Command{
			initCommand(), lintCommand(), lockCommand(), imagesCommand(), buildCommand(),
			signCommand(), verifyCommand(), serveCommand(), inspectCommand(), copyCommand(), saveCommand(), loadCommand(), inventoryCommand(), listCommand(), tagCommand(), exportCommand(),
			loginCommand(), logoutCommand(),
			keygenCommand(), schemaCommand(), flags.CompletionCommand(), flags.VersionCommand("bundle"),
		},
	}
}
