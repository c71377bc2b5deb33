package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
)

func loginCommand() *cli.Command {
	return &cli.Command{
		Name: "login", Usage: "log in to a registry, for every later command and for docker, helm, skopeo and oras",
		ArgsUsage: "HOST[/PATH]",
		Description: `The login is tried at the registry first and then stored in Docker's file
(DOCKER_CONFIG, else ~/.docker/config.json; --registry-config FILE names
another), or in the credential helper that the file names. The password comes
from standard input, or is asked for on a terminal; it is never an argument.

  bundle login registry.example --username me --password-stdin <password.txt
  bundle login registry.example/team --username robot --password-stdin <token.txt

A login for HOST/PATH counts for what is below PATH; docker and oras do not know
such logins. The Hub is docker.io. Chart repositories that are no registries have
their logins in Helm's repositories.yaml (helm repo add) or in netrc.

Exit codes: 0 done, 2 usage, 4 the registry refuses the login or the credential
helper fails, 10 not reachable.`,
		Flags: flags.Join([]cli.Flag{
			&cli.StringFlag{Name: "username", Aliases: []string{"u"}, Usage: "`NAME` of the user"},
			&cli.BoolFlag{Name: "password-stdin", Usage: "read the password from standard input"},
		}, flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			opts, err := loginOptionsFrom(c)
			if err != nil {
				return err
			}
			login, err := readLogin(c, opts.registry)
			if err != nil {
				return err
			}
			return runLogin(c.Context, opts, login, c.App.Writer, flags.Talk(c))
		},
	}
}

// loginOptions are what login and logout have in common.
type loginOptions struct {
	registry string           // as it was typed
	client   *registry.Client // its credentials file need not be there yet
	form     flags.Form
}

func loginOptionsFrom(c *cli.Context) (opts loginOptions, err error) {
	if opts.registry, err = flags.OneArg(c, "registry"); err != nil {
		return opts, err
	}
	if opts.form, err = flags.Output(c); err != nil {
		return opts, err
	}
	host, err := registry.HostOf(opts.registry)
	if err != nil {
		return opts, err
	}
	named := registry.Location{Kind: registry.Registry}
	named.Ref.Host = host
	settings, err := flags.RegistrySettings(c, named)
	if err != nil {
		return opts, err
	}
	settings.MakeConfig = true
	opts.client, err = registry.NewClient(settings)
	return opts, err
}

// A loginResult is what `login` says in JSON.
type loginResult struct {
	Registry string `json:"registry"`
	Username string `json:"username"`
	Stored   string `json:"stored"`  // the file, or the helper
	Plain    bool   `json:"plain"`   // the file holds the password itself
	Checked  bool   `json:"checked"` // the registry asked for the login
}

func runLogin(ctx context.Context, opts loginOptions, login registry.Login, out io.Writer, talk *ui.Talk) error {
	stored, err := opts.client.Login(ctx, opts.registry, login)
	if err != nil {
		return err
	}
	if !stored.Checked {
		talk.Warnf("%s asked for no login, so whether this one is right is not known", stored.Registry)
	}
	if stored.Plain {
		talk.Warnf("the password is in %s as it is; a credential helper (credsStore) keeps it elsewhere", stored.Place)
	}
	if opts.form == flags.JSON {
		return ui.JSON(out, loginResult{stored.Registry, login.Username, stored.Place, stored.Plain, stored.Checked})
	}
	_, err = ui.Printf(out, "%s: logged in as %s, stored in %s\n", stored.Registry, login.Username, stored.Place)
	return err
}

// maxPassword bounds what is read as a password, in bytes. Tokens are some
// thousand bytes long.
const maxPassword = 64 << 10

// readLogin takes user and password from flags and standard input, or asks on a
// terminal.
func readLogin(c *cli.Context, name string) (registry.Login, error) {
	login := registry.Login{Username: c.String("username")}
	terminal := ui.IsTerminal(c.App.Reader) && !c.Bool("password-stdin")
	if login.Username == "" {
		if !terminal {
			return login, &flags.UsageError{Message: "`bundle login` needs the name of a user", Hint: "--username NAME"}
		}
		ui.Printf(c.App.ErrWriter, "User name for %s: ", name)
		line, err := bufio.NewReader(io.LimitReader(c.App.Reader, maxPassword)).ReadString('\n')
		if err != nil {
			return login, fmt.Errorf("reading the user name: %w", err)
		}
		login.Username = strings.TrimSpace(line)
	}
	password, err := readPassword(c, name, terminal)
	if err != nil {
		return login, err
	}
	login.Password = password
	switch {
	case login.Username == "" || password == "":
		return login, flags.Usagef("user name and password must not be empty")
	case strings.Contains(login.Username, ":"):
		return login, flags.Usagef("a user name with a colon in it cannot be sent (%q)", login.Username)
	}
	return login, nil
}

func readPassword(c *cli.Context, name string, terminal bool) (string, error) {
	if terminal {
		ui.Printf(c.App.ErrWriter, "Password for %s: ", name)
		defer fmt.Fprintln(c.App.ErrWriter)
		data, err := term.ReadPassword(int(c.App.Reader.(*os.File).Fd()))
		return string(data), err
	}
	if !c.Bool("password-stdin") {
		return "", &flags.UsageError{Message: "no password, and no terminal to ask for it", Hint: "`bundle login HOST --username NAME --password-stdin <FILE`"}
	}
	data, err := io.ReadAll(io.LimitReader(c.App.Reader, maxPassword+1))
	if err != nil {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	if len(data) > maxPassword {
		return "", flags.Usagef("the password is longer than %d bytes", maxPassword)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}
