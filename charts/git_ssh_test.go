package charts

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshHost serves git's upload-pack over ssh to one key, and returns its address
// and the line of known_hosts that vouches for it.
func sshHost(t *testing.T, allowed ssh.PublicKey) (address, known string) {
	t.Helper()
	hostKey := newSSHKey(t)
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(allowed.Marshal()) {
			return nil, io.EOF
		}
		return &ssh.Permissions{}, nil
	}}
	signer, err := ssh.NewSignerFromKey(hostKey)
	if err != nil {
		t.Fatal(err)
	}
	config.AddHostKey(signer)
	config.AddHostKey(ecdsaHostKey(t)) // which clients would rather see
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveSSH(conn, config)
		}
	}()
	address = listener.Addr().String()
	return address, knownhosts.Line([]string{knownhosts.Normalize(address)}, signer.PublicKey())
}

func serveSSH(conn net.Conn, config *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for open := range channels {
		channel, requests, err := open.Accept()
		if err != nil {
			return
		}
		go func() {
			defer channel.Close()
			for r := range requests {
				var command struct{ Value string }
				if r.Type != "exec" || ssh.Unmarshal(r.Payload, &command) != nil {
					_ = r.Reply(false, nil)
					continue
				}
				_ = r.Reply(true, nil)
				dir := strings.Trim(strings.TrimPrefix(command.Value, "git-upload-pack "), "'")
				cmd := exec.Command("git", "-c", "safe.directory=*", "upload-pack", dir)
				cmd.Stdin, cmd.Stdout, cmd.Stderr = channel, channel, channel.Stderr()
				status := struct{ Status uint32 }{0}
				if cmd.Run() != nil {
					status.Status = 128
				}
				_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(&status))
				return
			}
		}()
	}
}

func ecdsaHostKey(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func newSSHKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sshAgent answers with these keys where programs look for an agent.
func sshAgent(t *testing.T, keys ...ed25519.PrivateKey) {
	t.Helper()
	ring := agent.NewKeyring()
	for _, key := range keys {
		if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(ring, conn) }()
		}
	}()
	t.Setenv("SSH_AUTH_SOCK", socket)
}

func TestGitOverSSH(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git program")
	}
	g := newGitRepo(t)
	commit := g.commit(shop)
	mine, other := newSSHKey(t), newSSHKey(t)
	public, err := ssh.NewPublicKey(mine.Public())
	if err != nil {
		t.Fatal(err)
	}
	address, line := sshHost(t, public)
	_, stranger := sshHost(t, public)
	known := func(line string) []string {
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{file}
	}
	// The key is the other's, the address this one's.
	impostor := strings.Fields(line)[0] + " " + strings.SplitN(stranger, " ", 2)[1]
	tests := map[string]struct {
		keys  []ed25519.PrivateKey
		known string
		err   string
	}{
		"a key of the agent":    {[]ed25519.PrivateKey{other, mine}, line, ""},
		"another key":           {[]ed25519.PrivateKey{other}, line, "unable to authenticate"},
		"a host nobody knows":   {[]ed25519.PrivateKey{mine}, "", "key is unknown"},
		"a host with other key": {[]ed25519.PrivateKey{mine}, impostor, "key mismatch"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sshAgent(t, test.keys...)
			src := Source{Git: "ssh://git@" + address + g.dir, Ref: "master"}
			c, err := Resolve(context.Background(), "", src, ResolveOptions{Network: accessNetwork{nil, GitAccess{KnownHosts: known(test.known)}}})
			if test.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				if want := src.Git + "//@master#" + commit.String(); c.Source != want {
					t.Errorf("source is %s, want %s", c.Source, want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), "git repository ssh://git@"+address) {
				t.Errorf("got %v, want %q", err, test.err)
			}
		})
	}
	t.Run("the usual files", func(t *testing.T) {
		sshAgent(t, mine)
		t.Setenv("SSH_KNOWN_HOSTS", known(line)[0])
		if _, err := Resolve(context.Background(), "", Source{Git: "ssh://git@" + address + g.dir}, ResolveOptions{Network: accessNetwork{}}); err != nil {
			t.Error(err)
		}
	})
	t.Run("no agent", func(t *testing.T) {
		t.Setenv("SSH_AUTH_SOCK", "")
		_, err := Resolve(context.Background(), "", Source{Git: "ssh://git@" + address + g.dir}, ResolveOptions{Network: accessNetwork{nil, GitAccess{KnownHosts: known(line)}}})
		if err == nil || !strings.Contains(err.Error(), "no ssh agent answers; start one (ssh-agent) and give it a key (ssh-add)") {
			t.Errorf("got %v", err)
		}
	})
}

// Addresses as people write them lead where git would go.
func TestGitAddresses(t *testing.T) {
	for address, local := range map[string]bool{
		"git@git.example:shop.git":   false,
		"git.example:shop.git":       false,
		"ssh://git@git.example/shop": false,
		"git+ssh://git.example/shop": false,
		"https://git.example/shop":   false,
		"../shop":                    true,
		"/srv/git/shop.git":          true,
		"shop":                       true,
		"file:///srv/git/shop.git":   true,
		`C:\git\shop`:                true,
		"./odd:name":                 true,
	} {
		_, got, err := gitPlace{url: address}.local()
		if err != nil || got != local {
			t.Errorf("%s: on this machine %v (%v), want %v", address, got, err, local)
		}
	}
}
