// Apply installs release bundles on a Kubernetes cluster as one unit, and
// tells what is installed.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
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
		Name:     "apply",
		Usage:    "install a release bundle on a Kubernetes cluster as one unit",
		Version:  flags.Version,
		Now:      time.Now,
		Fallback: installWord,
		Later:    []string{"rollback", "drift", "follow", "--plan", "--plan-out"},
		Words:    map[string]string{"delete": "uninstall", "list": "status", "diff": "plan"},
		Values: map[string][]string{
			"on-failure": onFailure(), "images": {"relocate", "expand:", "keep"},
		},
		Arguments: map[string][]string{"completion": flags.Shells()},
		Commands: []*cli.Command{
			planCommand(), installCommand(), statusCommand(), historyCommand(), siteCommand(), imagesCommand(),
			uninstallCommand(), renderCommand(), valuesCommand(), flags.CompletionCommand(), flags.VersionCommand("apply"),
		},
	}
}

// installWord makes `apply SRC` mean `apply install SRC` where the word looks
// like a source and not like a misspelt command.
func installWord(word string) string {
	if strings.ContainsAny(word, `/\:`) || strings.HasSuffix(word, ".tar") || isReleaseFile(word) {
		return "install"
	}
	return ""
}
