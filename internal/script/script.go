// Package script runs the testscript files of both programs
// (github.com/rogpeppe/go-internal/testscript): each has a folder of its own
// with its own home, caches and credentials, and nothing leaves the loopback.
//
// It adds commands to those of testscript:
//
//	registry NAME [DIR]  starts a registry, in memory or over a folder, and puts its host:port into $NAME;
//	                     -login=USER:PASSWORD wants a login, -token has a token service ask for it,
//	                     -tls puts the authorities into NAME.pem,
//	                     -absent=unknown|closed|login|denied for repositories not in -repositories=A,B
//	serving NAME ARG…    runs "bundle serve" and puts its host:port into $NAME; what it says is in NAME.stderr
//	serving stop NAME    interrupts it and wants it to end well
//	repository NAME DIR [-login=USER:PASSWORD] [-tls]
//	                     serves the packed charts, and all else, in DIR as a chart repository
//	image HOST/PATH:TAG PLATFORM…
//	                     puts a small image into a registry, an index when there are several platforms
//	requests NAME        prints what the server was asked since the last time
//	pack DIR FILE.tgz    packs a chart's folder
//	push FILE HOST/PATH:TAG
//	                     pushes a packed chart as helm push does
//	chart DIR NAME VER   writes a small chart: a ConfigMap and a Deployment
//	keys PREFIX          makes PREFIX.key and PREFIX.pub without a password
//	first FILE NAME      puts the first line of FILE into $NAME
//	damage FILE TEXT     changes the last byte of TEXT where FILE has it
//	exit N PROGRAM ARG…  runs a program and wants exit code N
package script

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// Params returns the parameters to run the scripts in dir with. more are
// further commands.
func Params(dir string, setup func(*testscript.Env) error, more map[string]func(*testscript.TestScript, bool, []string)) testscript.Params {
	commands := map[string]func(*testscript.TestScript, bool, []string){
		"registry": startRegistry, "serving": serving(), "repository": startRepository, "image": pushImage, "requests": requests,
		"pack": packChart, "push": pushChart, "chart": writeChart, "first": firstLine, "damage": damage, "exit": exitCode,
	}
	for name, command := range more {
		commands[name] = command
	}
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("WAYBILL_UPDATE") != "",
		Cmds:                commands,
		Setup: func(env *testscript.Env) error {
			env.Values[serversKey{}] = servers{}
			home := filepath.Join(env.WorkDir, ".home")
			if err := os.Mkdir(home, 0o700); err != nil {
				return err
			}
			env.Setenv("HOME", home)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(home, ".config"))
			env.Setenv("XDG_CACHE_HOME", filepath.Join(home, ".cache"))
			env.Setenv("COSIGN_PASSWORD", "")
			env.Setenv("NO_PROXY", "127.0.0.1,localhost")
			if setup != nil {
				return setup(env)
			}
			return nil
		},
	}
}

// Run runs the scripts of params.
func Run(t *testing.T, params testscript.Params) { testscript.Run(t, params) }

const chartYAML = `apiVersion: v2
name: %s
version: %s
appVersion: "1.0"
description: A chart of the tests
`

const chartValues = `replicas: 1
message: hello
image: registry.example/app:1.0
id: 0
labels: {}
annotations: {}
`

const chartTemplate = `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  labels: {{ toJson .Values.labels }}
data:
  message: {{ .Values.message | quote }}
  id: {{ .Values.id | quote }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata:
      labels: {app: {{ .Release.Name }}}
      annotations: {{ toJson .Values.annotations }}
    spec:
      containers:
      - name: app
        image: {{ .Values.image }}
        env: [{name: MESSAGE, value: {{ .Values.message | quote }}}]
`

func writeChart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: chart DIR NAME VERSION")
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Join(dir, "templates"), 0o755))
	for name, text := range map[string]string{
		"Chart.yaml": fmt.Sprintf(chartYAML, args[1], args[2]), "values.yaml": chartValues, "templates/app.yaml": chartTemplate,
	} {
		ts.Check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
}

func firstLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: first FILE NAME")
	}
	line, _, _ := strings.Cut(ts.ReadFile(args[0]), "\n")
	ts.Setenv(args[1], line)
}

func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage FILE TEXT")
	}
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	at := bytes.Index(data, []byte(args[1]))
	if at < 0 {
		ts.Fatalf("%s has no %q", args[0], args[1])
	}
	data[at+len(args[1])-1] ^= 1
	ts.Check(os.WriteFile(path, data, 0o644))
}

func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE PROGRAM ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
