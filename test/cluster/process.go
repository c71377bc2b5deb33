package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A group is the programs of one cluster, in one process group of their own.
//
// Beside them runs the keeper, a shell in another group, at the end of a pipe that only this process holds. When the
// pipe is closed, by stop or by the kernel after whatever ended this process, the keeper kills the group and removes the
// folder. So there is one way to end, which every test takes, and no moment in which a program runs unwatched: programs
// join the group before they run, and signals meant for this process's group (an interrupt from the terminal, a time-out
// that kills) reach neither programs nor keeper.
type group struct {
	pipe     *os.File
	leader   *exec.Cmd // its process id names the group; it waits at the same pipe
	keeper   *exec.Cmd
	programs []*program
}

// keeperScript gets the group's number and the folder to remove. Removal is tried again because a killed program may
// still be finishing its last system call.
const keeperScript = `trap '' HUP INT TERM
cat >/dev/null
kill -KILL -"$1"
for try in 1 2 3 4 5; do
	rm -rf "$2" && exit 0
	sleep 1
done
exit 1`

// startGroup starts an empty group; its end removes the folder.
func startGroup(remove string) (*group, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	leader := exec.Command("cat")
	leader.Stdin = read
	leader.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := leader.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a process group: %w", err), write.Close())
	}
	keeper := exec.Command("sh", "-c", keeperScript, "keeper", strconv.Itoa(leader.Process.Pid), remove)
	keeper.Stdin = read
	keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := keeper.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the keeper of a process group: %w", err), write.Close(), leader.Wait())
	}
	return &group{pipe: write, leader: leader, keeper: keeper}, nil
}

// stop ends all programs of the group and waits until they are gone and the folder is removed.
func (g *group) stop() error {
	if err := g.pipe.Close(); err != nil {
		return err
	}
	_ = g.leader.Wait() // killed, or at the end of its input: either is an end
	for _, p := range g.programs {
		<-p.ended
	}
	if err := g.keeper.Wait(); err != nil {
		return fmt.Errorf("removing what the cluster kept: %w", err)
	}
	return nil
}

// A program is one running member of a group.
type program struct {
	name, log string
	pid       int
	ended     chan struct{}
	how       string // it ended, to be read when ended is closed
}

// start starts a program in the group; what it says goes to NAME.log in the folder. It gets no environment but the
// search path: etcd takes flags from there, and nothing here is to use a proxy.
func (g *group) start(path, logs string, args ...string) (*program, error) {
	p := &program{name: filepath.Base(path), ended: make(chan struct{})}
	p.log = filepath.Join(logs, p.name+".log")
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644) // a program may run twice
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Dir = logs
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.leader.Process.Pid}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	p.pid = cmd.Process.Pid
	g.programs = append(g.programs, p)
	go func() {
		_ = cmd.Wait() // its error says what the state does
		p.how = cmd.ProcessState.String()
		close(p.ended)
	}()
	return p, nil
}

// waitUntil asks until the answer is nil, as long as the program runs.
func (p *program) waitUntil(ctx context.Context, ask func(context.Context) error) error {
	for {
		err := askOnce(ctx, ask)
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended (%s); its log ends with:\n%s", p.name, p.how, tail(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s does not get ready (%w: %w); its log ends with:\n%s", p.name, ctx.Err(), err, tail(p.log))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func askOnce(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return ask(ctx)
}

// tail is the end of a log, or why there is none.
func tail(path string) string {
	const most = 2000
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err.Error()
	}
	data := make([]byte, min(most, info.Size()))
	n, err := file.ReadAt(data, info.Size()-int64(len(data)))
	if err != nil && !errors.Is(err, io.EOF) {
		return err.Error()
	}
	data = data[:n]
	if n == most { // begin with a whole line
		_, data, _ = bytes.Cut(data, []byte("\n"))
	}
	return strings.TrimSpace(string(data))
}
