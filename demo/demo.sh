#!/usr/bin/env bash
# Takes a sample release the whole way: lock, build, sign, verify, plan, install,
# change, install again. It uses the cluster of your kubeconfig, or starts one of
# its own, and ends and removes all that it started.
set -euo pipefail
cd "$(dirname "$0")/.."

here=$PWD
work=$(mktemp -d)
started=()
installed=

cleanup() {
	code=$?
	trap - EXIT INT TERM
	if [ -n "$installed" ]; then
		echo "--- removing what was installed"
		apply uninstall waybill-demo --yes || code=1
	fi
	for pid in ${started[@]+"${started[@]}"}; do
		kill -INT "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	rm -rf "$work"
	exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

step() { printf '\n--- %s\n' "$*"; }

show() {
	printf '$ %s\n' "$*"
	"$@"
}

# background FILE COMMAND…: starts a command and waits for its first line, which
# goes to FILE.
background() {
	local out=$1
	shift
	"$@" >"$out" 2>"$out.log" &
	local pid=$!
	started+=("$pid")
	until [ -s "$out" ]; do
		if ! kill -0 "$pid" 2>/dev/null; then
			cat "$out.log" >&2
			exit 1
		fi
		sleep 0.2
	done
}

step "building the programs (the first time several minutes)"
make build
export PATH="$here/bin:$PATH" COSIGN_PASSWORD=

if [ -n "${KUBECONFIG:-}" ] || [ -e "$HOME/.kube/config" ]; then
	step "using the cluster of your kubeconfig"
	echo "Namespaces waybill-demo and waybill-system and one CRD are made there; the"
	echo "CRD and the namespaces stay afterwards. Its nodes pull two small images."
	if [ -t 0 ]; then
		read -r -p "Go on? [y/N] " answer
		case $answer in [yY]*) ;; *) exit 0 ;; esac
	fi
else
	step "no kubeconfig: starting a cluster on this machine"
	echo "It is a real API server whose nodes only pretend to run pods. Building it takes ten"
	echo "to twenty minutes the first time, and ten seconds later on."
	go run ./test/cluster/cmd/cluster build
	go build -o "$work/cluster" ./test/cluster/cmd/cluster
	background "$work/cluster.out" "$work/cluster" up "$work/cluster.d"
	KUBECONFIG=$(head -n 1 "$work/cluster.out")
	export KUBECONFIG
fi

step "starting a registry over a folder"
background "$work/registry.out" bundle serve "$work/registry" --listen 127.0.0.1:0
registry=$(sed -n '1s|.*://||p' "$work/registry.out")
echo "bundle serve $work/registry: $registry"

step "a key, and the release"
cp -R demo/release.yaml demo/charts "$work/"
cd "$work"
show bundle keygen
show bundle lint
show bundle lock --no-images

step "build, publish, sign, then tag"
show bundle build --no-images --signing-key cosign.key -t "oci://$registry/waybill-demo"
show bundle verify "oci://$registry/waybill-demo:1.0.0" --key cosign.pub
show bundle inspect "oci://$registry/waybill-demo:1.0.0" --key cosign.pub

step "plan, then install"
show apply plan "oci://$registry/waybill-demo:1.0.0" --key cosign.pub
installed=yes
show apply install "oci://$registry/waybill-demo:1.0.0" --key cosign.pub
show apply status waybill-demo

step "once more: nothing to do"
show apply install "oci://$registry/waybill-demo:1.0.0" --key cosign.pub

step "version 1.1.0: web says something else"
sed -i.old -e 's/^version: 1.0.0/version: 1.1.0/' -e 's/greeting: hello/greeting: good morning/' release.yaml
show bundle lock --no-images
show bundle build --no-images --signing-key cosign.key -t "oci://$registry/waybill-demo"
show apply plan "oci://$registry/waybill-demo:1.1.0" --key cosign.pub --diff
show apply install "oci://$registry/waybill-demo:1.1.0" --key cosign.pub
show apply history waybill-demo

step "over a gap: the same bundle in one file"
show bundle copy "oci://$registry/waybill-demo:1.1.0" waybill-demo-1.1.0.tar --key cosign.pub
show bundle verify waybill-demo-1.1.0.tar --key cosign.pub

step "that was it"
