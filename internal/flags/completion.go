package flags

import (
	"embed"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/internal/ui"
)

// Shells are those that [CompletionCommand] knows.
func Shells() []string { return []string{"bash", "zsh", "fish", "powershell"} }

//go:embed completion
var completionScripts embed.FS

// CompletionCommand prints what makes a shell complete the program's command
// lines. The program is the one that was called, by that name.
func CompletionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print what makes a shell complete commands, flags and their values",
		ArgsUsage: "bash|zsh|fish|powershell",
		Description: `The shell asks the program itself, so that it needs to be printed once only:

  bash        source <(PROGRAM completion bash)             in ~/.bashrc
  zsh         source <(PROGRAM completion zsh)              in ~/.zshrc, after compinit
  fish        PROGRAM completion fish | source              in ~/.config/fish/config.fish
  powershell  PROGRAM completion powershell | Out-String | Invoke-Expression   in $PROFILE

Exit codes: 0 done, 2 usage.`,
		Flags: Common(),
		Action: func(c *cli.Context) error {
			shell, err := OneArg(c, "shell")
			if err != nil {
				return err
			}
			form, err := Output(c)
			if err != nil {
				return err
			}
			text, err := completionScript(shell, c.App.Name)
			if err != nil {
				return err
			}
			if form == JSON {
				return ui.JSON(c.App.Writer, map[string]string{"shell": shell, "script": text})
			}
			_, err = io.WriteString(c.App.Writer, text)
			return err
		},
	}
}

var notInFunctionNames = regexp.MustCompile(`[^A-Za-z0-9_]`)

func completionScript(shell, program string) (string, error) {
	script, err := completionScripts.ReadFile(path.Join("completion", shell))
	if err != nil || strings.ContainsAny(shell, "./") {
		return "", &UsageError{
			Message: fmt.Sprintf("there is no completion for %q", shell), Hint: "it is " + strings.Join(Shells(), ", "),
		}
	}
	return strings.NewReplacer("PROGRAM", program, "FUNCTION", "_complete_"+notInFunctionNames.ReplaceAllString(program, "_")).Replace(string(script)), nil
}
