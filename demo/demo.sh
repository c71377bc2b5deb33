#!/usr/bin/env bash
# Shows the road from a release file to a running release, and to the next one:
# builds the programs, starts a registry, packs, signs, verifies, plans, installs,
# changes one chart, and installs again.
#
#   DEMO_CLUSTER   local: always in a cluster of its own; current: in that of your
#                  kubeconfig, without asking. Otherwise the kubeconfig's cluster when
#                  it answers (asked for on a terminal), else one of its own.
#   DEMO_PROGRAMS  a folder with bundle, apply and cluster, instead of building them
#
# What it starts it ends, on an interrupt too.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly state_namespace=waybill-demo-system
work=$(mktemp -d "${TMPDIR:-/tmp}/waybill-demo.XXXXXX")
started=()   # process ids
installed=   # set once something may be in a cluster that is not ours

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' plain=$'\e[0m'; fi

say() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }

# run shows a command and runs it.
run() {
	printf '%s$ %s%s\n' "$bold" "$*" "$plain"
	"$@"
}

finish() {
	local code=$?
	trap '' INT TERM
	if [ -n "$installed" ]; then
		say "taking the demo off the cluster"
		apply uninstall waybill-demo --yes --quiet --state-namespace "$state_namespace" || true
		local left="namespace/waybill-demo namespace/$state_namespace crd/greetings.demo.waybill.example"
		if command -v kubectl >/dev/null; then
			# shellcheck disable=SC2086 # they are words
			kubectl delete --ignore-not-found $left || true
		else
			echo "what uninstall leaves, as it always does: $left"
		fi
	fi
	for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
	for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
	rm -rf "$work"
	[ "$code" -ne 0 ] || say "done; the registry, the cluster and the files of the demo are gone"
	exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# first_line waits for a program in the background to say where it is.
first_line() { # PID FILE
	until [ -s "$2" ]; do
		kill -0 "$1" 2>/dev/null || { cat "$2.log" >&2; return 1; }
		sleep 0.2
	done
	head -n 1 "$2"
}

build_programs() {
	if [ -n "${DEMO_PROGRAMS:-}" ]; then
		PATH=$DEMO_PROGRAMS:$PATH
		return
	fi
	say "building the programs: three to ten minutes the first time, seconds afterwards"
	run make build
	PATH=$PWD/bin:$PATH
}

start_registry() {
	say "starting the embedded registry over an empty folder"
	echo "\$ bundle serve $work/registry --listen 127.0.0.1:0 &"
	bundle serve "$work/registry" --listen 127.0.0.1:0 >"$work/serve" 2>"$work/serve.log" &
	started+=($!)
	registry=$(first_line $! "$work/serve")
	registry=${registry#*://}
	echo "$registry"
}

# current_cluster names the kubeconfig's cluster when it answers.
current_cluster() {
	local config=${KUBECONFIG:-$HOME/.kube/config}
	config=${config%%:*}
	[ -s "$config" ] || return 1
	echo "asking the cluster of $config whether it is there, half a minute at most" >&2
	timeout 30 apply status --quiet --state-namespace "$state_namespace" >/dev/null 2>&1 || return 1
	echo "context $(sed -n 's/^current-context: *//p' "$config") of $config"
}

choose_cluster() {
	local current='' answer
	if [ "${DEMO_CLUSTER:-}" != local ]; then current=$(current_cluster) || true; fi
	if [ -n "$current" ] && [ -z "${DEMO_CLUSTER:-}" ] && [ -t 0 ]; then
		read -r -p "Install the demo into $current? [y/N: into a cluster of its own] " answer
		[ "$answer" = y ] || [ "$answer" = yes ] || current=
	fi
	if [ -n "$current" ]; then
		say "the cluster: $current; namespaces waybill-demo and $state_namespace"
		installed=yes
		return
	fi
	[ "${DEMO_CLUSTER:-}" != current ] || { echo "the kubeconfig's cluster does not answer" >&2; exit 1; }
	start_cluster
}

start_cluster() {
	say "the cluster: one of its own, whose pods are pretended. Building etcd, kube-apiserver and kube-controller-manager takes 15 to 30 minutes the first time; starting it ten seconds"
	if [ -z "${DEMO_PROGRAMS:-}" ]; then go build -o "$work/bin/cluster" ./test/cluster/cmd/cluster; fi
	PATH=$work/bin:$PATH cluster build >/dev/null
	PATH=$work/bin:$PATH cluster up "$work/cluster" >"$work/up" 2>"$work/up.log" &
	started+=($!)
	KUBECONFIG=$(first_line $! "$work/up")
	export KUBECONFIG
	echo "KUBECONFIG=$KUBECONFIG"
}

pack() {
	run bundle lint
	run bundle lock --no-images
	run bundle build --no-images --signing-key demo.key -t "oci://$registry/waybill-demo"
}

build_programs
cp -R demo/release.yaml demo/charts "$work"
start_registry
cd "$work"
export COSIGN_PASSWORD=  # of a key that lives as long as the demo

say "packing and signing release 1.0.0: four charts (release.yaml is demo/release.yaml)"
run bundle keygen --prefix demo
pack
run bundle verify "oci://$registry/waybill-demo:1.0.0" --key demo.pub
run bundle inspect "oci://$registry/waybill-demo:1.0.0" --key demo.pub

cd "$OLDPWD"
choose_cluster
cd "$work"

readonly flags=(--key demo.pub --state-namespace "$state_namespace")
say "installing it: kinds and database first, then clock, and web, which needs database"
run apply plan "oci://$registry/waybill-demo:1.0.0" "${flags[@]}"
run apply install "oci://$registry/waybill-demo:1.0.0" "${flags[@]}"
run apply status waybill-demo --state-namespace "$state_namespace"

say "once more: nothing to do"
run apply install "oci://$registry/waybill-demo:1.0.0" "${flags[@]}"

say "release 1.1.0: another greeting of web, nothing else"
run sed -i.bak -e 's/^version: 1.0.0/version: 1.1.0/' -e 's/greeting: hello/greeting: hello again/' release.yaml
pack
run apply plan "oci://$registry/waybill-demo:1.1.0" --diff "${flags[@]}"
run apply install "oci://$registry/waybill-demo:1.1.0" "${flags[@]}"

say "only web moved: its Helm revision is 2, the others' are 1"
run apply status waybill-demo --state-namespace "$state_namespace"
run apply history waybill-demo --state-namespace "$state_namespace"

say "the same bundle as one file, to be carried over a gap"
run bundle copy "oci://$registry/waybill-demo:1.1.0" waybill-demo-1.1.0.tar --key demo.pub
run bundle verify waybill-demo-1.1.0.tar --key demo.pub
