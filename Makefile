# Two commands do everything: `make run` starts the product, `make test` checks it. `make help` lists the rest.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export AUTH_TOKEN ?= demo-read-token
export CRUD_AUTH_TOKEN ?= demo-write-token
LISTEN_ADDR ?= 127.0.0.1:8080
PYTHON_TOOLS := target/python-tools

.PHONY: help run play demo-local test alerts ui ui-large screenshots test-flux e2e manifests lint shellcheck deny advisories firestone openapi clients generate verify docs docs-check bench scale steady soak fuzz clean
.PHONY: demo docker-build kind-create kind-demo kind-delete cli-demo cli-demo-port-forward

help: ## List the commands.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-21s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Build and start the server on SQLite with the demo fleet.
	cargo build --profile quick --bin flux-resourceset
	@LISTEN_ADDR=$(LISTEN_ADDR) scripts/run.sh

play: ## Show the life of a fleet in a terminal; needs a server that `make run` started in another one.
	@LISTEN_ADDR=$(LISTEN_ADDR) scripts/play.sh

demo-local: ## Start real clusters with the real Flux, without containers, and leave them running (builds as `make e2e` does).
	scripts/go.sh
	e2e/run.sh demo

test: lint verify deny firestone openapi ## Run every check that must pass before a merge.
	scripts/debian.sh curl diff:diffutils awk:gawk git prometheus promtool:prometheus valgrind
	scripts/postgres.sh
	scripts/oidc-provider.sh
	scripts/chromium.sh
	cargo test --workspace

alerts: ## Test the alert rules and the dashboard with a real Prometheus that scrapes real servers (a part of `make test`).
	scripts/debian.sh prometheus promtool:prometheus
	cargo build --workspace --bins
	cargo test --workspace --test monitoring

ui: ## Test the dashboard in a real Chromium (2 minutes; a part of `make test`).
	scripts/chromium.sh
	cargo build --workspace --bins
	cargo test --workspace --test browser

ui-large: ## Measure the dashboard in Chromium with a fleet of 100,000 clusters.
	scripts/chromium.sh
	cargo build --profile quick --bin flux-resourceset
	SERVER_BINARY=$$PWD/target/quick/flux-resourceset cargo test --workspace --test browser -- --ignored --nocapture a_hundred_thousand

screenshots: ## Write the pictures of the dashboard in the book (docs/src/images).
	scripts/chromium.sh
	scripts/debian.sh pngquant fc-match:fontconfig
	fc-list | grep Inter >/dev/null || scripts/debian.sh Inter:fonts-inter
	cargo build --workspace --bins
	cargo test --workspace --test browser -- --ignored --nocapture screenshots
	pngquant --force --ext .png --strip --speed 1 docs/src/images/*.png

test-flux: ## Compare the renderer with the real Flux Operator CLI, installed with Go (5 minutes; the first time 5 more).
	scripts/judge.sh --check
	FLUX_OPERATOR_CLI=$$(scripts/judge.sh --path) cargo test --workspace --test flux -- --ignored --nocapture

e2e: ## Test the life of a cluster with a real Kubernetes API and the real Flux, without containers (the first time 15 minutes to build).
	scripts/go.sh
	KUSTOMIZE=$$(scripts/go-tool.sh kustomize) KUBECTL=$$(e2e/kubectl.sh) cargo test --workspace --test cli -- --ignored kustomize
	e2e/run.sh
	e2e/reporter.sh
	e2e/demo-test.sh

manifests: ## Check every shipped manifest (k8s/, deploy/, the chart) by a dry run on a real Kubernetes API (builds as e2e does).
	e2e/manifests.sh

lint: shellcheck ## Check format and lints; warnings are errors.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

shellcheck: ## Check every shell script.
	scripts/shellcheck.sh

deny: ## Check licences, sources and bans of the dependencies, and that each is used.
	scripts/cargo-deny.sh bans licenses sources
	scripts/cargo-machete.sh

advisories: ## Check for known vulnerabilities of the dependencies (needs the advisory database on github.com).
	scripts/cargo-deny.sh advisories

firestone: $(PYTHON_TOOLS)/ready ## Check that the shipped kinds are valid Firestone resources, and that the OpenAPI document is valid.
	scripts/check-firestone.sh $(PYTHON_TOOLS)/bin

openapi: $(PYTHON_TOOLS)/ready ## Compare the real server with its OpenAPI document, with schemathesis (2 minutes).
	scripts/check-openapi.sh $(PYTHON_TOOLS)/bin

clients: ## Test clients generated from the OpenAPI document in Go, Python, TypeScript and Rust: one call of each tag (10 minutes).
	scripts/clients.sh

# The generated files, each with the command that writes it.
CHART_FILES := deploy/chart/flux-resourceset/files
GENERATED := openapi/openapi.yaml docs/src/api.md docs/src/server.md docs/src/cli.md \
  $(CHART_FILES)/alerts.yaml $(CHART_FILES)/dashboard.json \
  deploy/kustomize/production/prometheus-rule.yaml deploy/kustomize/production/dashboard.json
target/generated/openapi/openapi.yaml: COMMAND = target/debug/flux-resourceset openapi
target/generated/docs/src/api.md: COMMAND = target/debug/flux-resourceset reference api
target/generated/docs/src/server.md: COMMAND = target/debug/flux-resourceset reference server
target/generated/docs/src/cli.md: COMMAND = env -u FLUX_API_URL target/debug/flux-resourceset-cli docs
# Packages cannot include files of other folders.
target/generated/$(CHART_FILES)/alerts.yaml: COMMAND = cat docs/src/alerts.yaml
target/generated/$(CHART_FILES)/dashboard.json: COMMAND = cat docs/src/dashboard.json
target/generated/deploy/kustomize/production/dashboard.json: COMMAND = cat docs/src/dashboard.json
target/generated/deploy/kustomize/production/prometheus-rule.yaml: COMMAND = scripts/prometheus-rule.sh docs/src/alerts.yaml

# With the whole workspace, as the tests build them: alone, they have other features of dependencies, which would be compiled twice.
.PHONY: binaries
binaries:
	cargo build --quiet --workspace --bins

.PHONY: $(GENERATED:%=target/generated/%)
$(GENERATED:%=target/generated/%): binaries
	@mkdir -p $(@D)
	$(COMMAND) > $@

generate: $(GENERATED:%=target/generated/%) ## Write the generated files: OpenAPI, the reference pages of the book, the packages' copies of alerts and dashboard.
	cp -r target/generated/. .

verify: $(GENERATED:%=target/generated/%) ## Fail if a generated file is stale.
	@for file in $(GENERATED); do \
	  diff -u $$file target/generated/$$file || { echo "$$file is stale: run make generate" >&2; exit 1; }; \
	done

docs: ## Build the book into target/book (the first time a few minutes more, to install mdBook).
	scripts/mdbook.sh

docs-check: docs ## Check that headless Chromium can draw every diagram of the book, without a network.
	scripts/check-diagrams.sh

bench: ## Run the benchmarks, relative to a reference in the same run; writes docs/src/benchmarks.md (about 10 minutes).
	cargo build --release --package flux-resourceset
	cargo run --release --package bench -- --out docs/src/benchmarks.md

scale: ## Measure the resources that fleets of up to a million clusters need; writes docs/src/scale.md (about 10 minutes, 6 GiB of memory).
	cargo build --release --package flux-resourceset
	cargo run --release --package bench -- scale --out docs/src/scale.md

steady: ## Measure the everyday load of a million clusters: 10,000 polls, 50 writes and 100 reports each second, for 10 minutes after an import.
	cargo build --release --package flux-resourceset --package bench
	target/release/bench steady

DURATION ?= 1h
soak: ## Run a stress test for an hour (DURATION=10m): load, restarts, kills, database faults, attacks; writes docs/src/soak.md.
	scripts/postgres.sh
	cargo build --release --package flux-resourceset --package soak
	target/release/soak --duration $(DURATION) --out docs/src/soak.md

# SECONDS is passed as FUZZ_SECONDS, because bash has its own variable SECONDS.
fuzz: ## Fuzz every target for a minute (SECONDS=3600 TARGET=yaml: one target for an hour).
	FUZZ_SECONDS=$(or $(SECONDS),60) TARGET=$(TARGET) scripts/fuzz.sh

clean: ## Remove the build output, the demo's database and its kind cluster.
	scripts/demo/kind-delete.sh --if-any
	cargo clean
	rm -f data/*.db data/*.db-shm data/*.db-wal data/*.db.head

demo: kind-create kind-demo ## Run the whole loop on a kind cluster: needs docker, kind and kubectl.

docker-build: ## Build the image flux-resourceset:local.
	scripts/demo/docker-build.sh

kind-create: ## Create the kind cluster flux-demo.
	scripts/demo/kind-create.sh

kind-demo: docker-build ## Load the image and deploy Flux, the API and the demo fleet on it.
	scripts/demo/kind-demo.sh

cli-demo: ## Add a namespace with the command line and see it on the cluster.
	scripts/demo/cli-demo.sh

cli-demo-port-forward: ## Serve the demo's API on 127.0.0.1:8080, until Ctrl-C.
	scripts/demo/port-forward.sh

kind-delete: ## Delete the kind cluster.
	scripts/demo/kind-delete.sh

$(PYTHON_TOOLS)/ready: scripts/python-tools.txt scripts/python-tools.sh
	scripts/python-tools.sh $(PYTHON_TOOLS)
