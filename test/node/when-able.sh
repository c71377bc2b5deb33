#!/usr/bin/env bash
# Runs the tests of the node where the machine can run one, and says plainly where
# it cannot: a missing precondition is a skip, a failing scenario is a failure.
#
# usage: test/node/when-able.sh PACKAGE...   Debian packages that are installed first
set -uo pipefail
cd "$(dirname "$0")/../.."
go=${GO:-go}

skip() {
	echo "test-node: SKIPPED: $*"
	exit 0
}

# able runs what must succeed for a node to run at all, and skips with its last words.
able() {
	local what=$1 said
	shift
	said=$("$@" 2>&1) || skip "$what: $(tail -n 3 <<<"$said")"
}

# control_group makes a group as containers get one, and removes it.
control_group() {
	local top=/sys/fs/cgroup made
	[ -d "$top/memory" ] && top=$top/memory
	made=$top/waybill-probe.$$
	mkdir "$made" && rmdir "$made"
}

[ "$(uname -s)" = Linux ] || skip "this is $(uname -s), and a node is Linux"
[ "$(id -u)" = 0 ] || skip "it needs the rights of root"
[ -c /dev/net/tun ] || skip "there is no /dev/net/tun"
[ -c /dev/kmsg ] || skip "there is no /dev/kmsg, which kubelet reads"
able "/dev/net/tun cannot be opened" bash -c 'exec 3<>/dev/net/tun'
able "control groups cannot be made" control_group
able "namespaces cannot be made" unshare --net --mount --pid --uts --ipc --fork true
[ "$(awk '/^MemAvailable/ {print int($2/1024)}' /proc/meminfo)" -ge 2500 ] || skip "it needs 2.5 GiB of memory"
[ "$(df --output=avail -m "${TMPDIR:-/tmp}" | tail -n 1)" -ge 4000 ] || skip "it needs 4 GB in ${TMPDIR:-/tmp}"
if ! dpkg --status "$@" >/dev/null 2>&1; then
	command -v apt-get >/dev/null || skip "there is no apt-get to install $*"
	able "Debian's packages cannot be listed" timeout 120 apt-get update
	able "Debian's packages cannot be installed" env DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -y --no-install-recommends "$@"
fi
able "kubelet and scheduler cannot be built" timeout 900 "$go" run ./test/cluster/cmd/cluster build node

WAYBILL_TEST_NODE=when-able "$go" test -count=1 -v -timeout=20m ./test/node
