//go:build linux

package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// processes is the site as the machine around it sees it: one process, the first
// of namespaces of its own, with which the kernel ends everything in them:
// containers, mounts, networks.
//
// That process ends when a pipe is closed that only we hold, by stop or by the
// kernel after whatever ended us. At the same pipe waits the keeper, a shell in a
// process group of its own, which then removes what namespaces do not: the
// control groups and the folder.
type processes struct {
	dir    string
	pipe   *os.File
	answer *os.File
	first  *exec.Cmd
	keeper *exec.Cmd
}

// keeperScript gets the number of the first process and the folder. In it
// containerd has a folder for every container, by the name of its control group.
const keeperScript = `trap '' HUP INT TERM
cat >/dev/null
containers=$(ls "$2/` + containersDir + `")
for try in 1 2 3 4 5 6 7 8 9 10; do
	kill -KILL "$1" 2>/dev/null
	left=
	for id in $containers; do
		find /sys/fs/cgroup -depth -type d -name "$id" -exec rmdir {} + 2>/dev/null || left=$id
	done
	find /sys/fs/cgroup -mindepth 1 -maxdepth 2 -type d -name k8s.io -exec rmdir {} + 2>/dev/null
	[ -z "$left" ] && rm -rf "$2" && exit 0
	sleep 1
done
exit 1`

// containersDir is containerd's folder of containers in the site's.
const containersDir = "lib/containerd/io.containerd.runtime.v2.task/k8s.io"

// startProcesses starts the namespaces of the site. What goes on in them is in
// inside.go.
func startProcesses(dir string) (*processes, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	answer, say, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	defer say.Close()
	log, err := os.Create(filepath.Join(dir, "log", "site.log"))
	if err != nil {
		return nil, errors.Join(err, write.Close(), answer.Close())
	}
	defer log.Close()
	first := exec.Command("/proc/self/exe")
	first.Args = []string{firstName, dir}
	first.Env = []string{"PATH=" + os.Getenv("PATH")}
	first.Stdin, first.Stdout, first.Stderr = read, say, log
	first.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
			syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := first.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("making namespaces: %w", err), write.Close(), answer.Close())
	}
	p := &processes{dir: dir, pipe: write, answer: answer, first: first}
	p.keeper = exec.Command("sh", "-c", keeperScript, "keeper", strconv.Itoa(first.Process.Pid), dir)
	p.keeper.Stdin = read
	p.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.keeper.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the keeper: %w", err), write.Close(), first.Wait(), answer.Close())
	}
	return p, nil
}

// ready waits until the site says that all of it runs.
func (p *processes) ready(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = p.answer.Close() })
	defer stop()
	line, err := bufio.NewReader(p.answer).ReadString('\n')
	if err == nil && line == readyLine {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if errors.Is(err, io.EOF) { // what ended says why in its log
		err = errors.New("it ended")
	}
	return fmt.Errorf("%w; its log ends with:\n%s", err, tail(filepath.Join(p.dir, "log", "site.log")))
}

// tail is the end of a log, or why there is none.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 3000
	return string(bytes.TrimSpace(data[max(0, len(data)-most):]))
}

// stop ends everything and waits until it is gone.
func (p *processes) stop() error {
	err := p.pipe.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	_ = p.first.Wait() // its end is what was asked for, whatever its code
	_ = p.answer.Close()
	if err := p.keeper.Wait(); err != nil {
		return fmt.Errorf("removing what the site kept: %w", err)
	}
	return err
}
