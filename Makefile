# Everything is built from Go modules; nothing else is downloaded.

GO ?= go

.PHONY: build demo test test-node test-node-when-able lint interop cluster peers check-release snapshot clean

build: ## build both programs into bin/
	$(GO) build -o bin/bundle ./cmd/bundle
	$(GO) build -o bin/apply ./cmd/apply

demo: ## take a sample release the whole way, on the cluster of your kubeconfig or a local one
	demo/demo.sh

cluster: ## build the programs of the test cluster into the cache (ten to twenty minutes the first time)
	$(GO) run ./test/cluster/cmd/cluster build

peers: ## build the programs that tests compare with: helm and cosign, of the versions linked, and the conformance suite of registries
	$(GO) build -o bin/peers/ helm.sh/helm/v3/cmd/helm github.com/sigstore/cosign/v2/cmd/cosign
	$(GO) build -C test/conformance/tools -o $(CURDIR)/bin/peers/ tool

test: cluster peers ## all tests, those on a real API server and with helm and cosign included
	WAYBILL_TEST_CLUSTER=required WAYBILL_PEERS=$(CURDIR)/bin/peers WAYBILL_COSIGN=$(CURDIR)/bin/peers/cosign $(GO) test ./...

interop: peers ## try bundles with oras, crane, regctl, skopeo, helm and two cosigns on two registries
	$(GO) build -C test/interop/tools -o $(CURDIR)/bin/peers/ tool
	$(GO) build -C test/interop/tools/cosign3 -o $(CURDIR)/bin/peers/cosign3 github.com/sigstore/cosign/v3/cmd/cosign
	WAYBILL_INTEROP=$(CURDIR)/bin/peers $(GO) test -count=1 -v ./test/interop

# The part of 8 GiB that the large workload is: the disk must hold four times as much.
BENCH_SCALE ?= 1
BENCH_ROUNDS ?= 3

bench: build ## measure bundle beside oras, crane, regctl and skopeo ("make interop" builds them) and write docs/benchmarks.md
	$(GO) build -o bin/bench ./test/bench
	PATH=$(CURDIR)/bin/peers:$$PATH bin/bench -peers bin -scale $(BENCH_SCALE) -rounds $(BENCH_ROUNDS) -o docs/benchmarks.md

# What a node needs from Debian, and a C compiler for runc.
NODE_PACKAGES = containerd containernetworking-plugins docker-registry iproute2 util-linux gcc libc6-dev libseccomp-dev pkg-config

test-node: ## run a bundle on a real node behind a gap: as root on Debian, installs $(NODE_PACKAGES)
	dpkg --status $(NODE_PACKAGES) >/dev/null 2>&1 || { apt-get update && apt-get install -y --no-install-recommends $(NODE_PACKAGES); }
	$(GO) run ./test/cluster/cmd/cluster build node
	WAYBILL_TEST_NODE=required $(GO) test -count=1 -v -timeout=20m ./test/node

test-node-when-able: ## the same where the machine can run a node; says so where it cannot
	GO=$(GO) test/node/when-able.sh $(NODE_PACKAGES)

lint: ## vet and golangci-lint
	$(GO) vet ./...
	$(GO) tool -modfile=test/tools/go.mod golangci-lint run

check-release: ## hold .goreleaser.yaml against goreleaser, which is built first (ten minutes)
	$(GO) tool -modfile=test/release/go.mod goreleaser check

snapshot: ## archives and packages of both programs for every system, in dist/; nothing is published
	$(GO) tool -modfile=test/release/go.mod goreleaser release --snapshot --clean

clean:
	rm -rf bin dist
