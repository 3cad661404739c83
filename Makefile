# Every task of this repository. `make help` lists them.
export CGO_ENABLED ?= 0
GO ?= go
BUF := $(GO) run github.com/bufbuild/buf/cmd/buf@v1.75.0

# The linters have their own modules (deploy/lint, deploy/lint/vale) because they depend on 200 others.
# The first build takes two minutes on two cores. Results are cached.
# golangci-lint includes vet's analyzers and uses all build tags that only add files (.golangci.yml).
GOLANGCI := $(GO) tool -modfile deploy/lint/go.mod golangci-lint run --allow-parallel-runners
GOLANGCI_LAB := cd internal/lab && $(GO) tool -modfile ../../deploy/lint/go.mod golangci-lint run --allow-parallel-runners -c ../../.golangci.yml
# Packages with files that are built only without the tag kafka, which .golangci.yml sets.
EMBEDDED_ONLY := ./internal/brokertest ./streams/topology
# govulncheck's database: https://vuln.go.dev by default, or a copy (file:///path).
VULNDB ?=
GOVULNCHECK = $(GO) tool govulncheck $(if $(VULNDB),-db $(VULNDB)) ./...
FUZZTIME ?= 30s
# Separate modules with heavy dependencies that only their tests need.
TEST_MODULES := internal/lab internal/stellar/oracle deploy/monitoring/check deploy/check
# The laboratory: simulator, trial, benchmarks, site. The product does not import it.
LAB := cd internal/lab && $(GO)

# The version that `lumenhook version` prints if the Go command did not record one.
VERSION ?= $(shell git describe --tags 2>/dev/null)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE ?= $(shell git log -1 --format=%cI 2>/dev/null)
MODIFIED ?= $(if $(shell git status --porcelain 2>/dev/null),true,false)
CLI := github.com/lumenhook/lumenhook/internal/cli
LDFLAGS := -X $(CLI).version=$(VERSION) -X $(CLI).commit=$(COMMIT) -X $(CLI).date=$(DATE) -X $(CLI).modified=$(MODIFIED)

.PHONY: help run build test test-kafka test-kafka-long test-cluster test-browser test-signatures test-receivers test-shells test-package lint lint-units lint-openapi vuln fuzz race nightly sim mutants trial reconcile-soak bench bench-waiting bench-api bench-match bench-projections bench-statement bench-reader bench-receipts bench-ledger bench-compare recording site site-serve charts release-snapshot generate generate-clients clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build and start everything on embedded defaults; Ctrl-C stops it
	@./bin/lumenhook run $(ARGS)

build: ## build ./bin/lumenhook
	@echo "building bin/lumenhook; the first time takes a minute or so"
	@$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/lumenhook ./cmd/lumenhook

# Releases include these files, and packages install them where shells look for them.
.PHONY: shell-files
shell-files: ## write shell completions to completions/ and man pages to man/
	@mkdir -p completions
	@$(GO) build -trimpath -tags noengine -o completions/.program ./cmd/lumenhook
	@set -e; for shell in bash zsh fish powershell; do completions/.program completion $$shell > completions/lumenhook.$$shell; done
	@completions/.program man --to man
	@rm completions/.program

# Product and laboratory packages that differ from SINCE, committed or not.
SINCE ?= main
CHANGED = $(shell { git diff --name-only --diff-filter=d $$(git merge-base HEAD $(SINCE) 2>/dev/null || echo HEAD); \
	git ls-files --others --exclude-standard; } | grep '\.go$$' | xargs -r -n1 dirname | sort -u | sed 's|^|./|')
OTHER_MODULES := $(foreach module,$(TEST_MODULES),./$(module) ./$(module)/%)
.PHONY: check
check: format ## run this on every change (two minutes): gofmt, vet, the linter on packages that differ from SINCE=main, go test -short
	$(GO) vet ./...
	@$(if $(filter-out $(OTHER_MODULES),$(CHANGED)),$(GOLANGCI) $(filter-out $(OTHER_MODULES),$(CHANGED)))
	@$(if $(filter ./internal/lab/%,$(CHANGED)),$(GOLANGCI_LAB) $(patsubst ./internal/lab/%,./%,$(filter ./internal/lab/%,$(CHANGED))))
	$(GO) test -short -vet off -timeout 10m ./...

test: lint test-modules test-product ## run the linters and all tests, against real brokers, databases and sockets

# `lint` has already run vet.
# Tests mostly wait: four of a package run at a time.
TEST := test -vet off -timeout 40m -parallel 4
.PHONY: build-all test-product test-modules
test-product:
	$(GO) $(TEST) ./...

test-modules:
	@set -e; for module in $(TEST_MODULES); do echo "== $$module"; (cd $$module && $(GO) $(TEST) ./...); done

build-all:
	$(GO) vet ./...

# Suites that run on both brokers share a cluster, one package at a time, because some tests
# kill every broker (brokertest.Exclusive). They mostly wait, so three tests of a package run at a
# time, on two clusters. The packages in KAFKA_OWN start their own brokers.
KAFKA_OWN := ./internal/kafkatest ./internal/config
KAFKA_LOGS := ./streams/kafka ./streams/task ./streams/commands ./streams/directory ./streams/topology
KAFKA_ROLES := ./streams/engine ./streams/follower ./streams/mailer ./streams/transfer
KAFKA_TEST := $(GO) test -tags kafka -p 1 -parallel 3 -count 1 -timeout 20m
# With SAMPLE=1, as in CI, real Kafka has only those tests of projections that depend on groups,
# transactions, retention and kills. The others read facts, which the embedded broker shows.
SAMPLE ?=
KAFKA_SAMPLE := ^Test(KillsLeaveNoRowMissingOrDoubled|ProjectorsShareThePartitions|FactsBecomeRows|RepeatedFactsChangeNoAnswer|TheGroupIsWhereTheHistoryIs|AHistoryWithAbortedFactsIsNamedAndHealed|AProjectorStopsWhenItsTopicIsCut|RebuildOfATopicThatLostItsBeginning|HistoryWaitsForWhatWasWritten|NoNumberIsPassedOver|ARestartedProjectorStaysStuckUntilItHasReadItsPositions|InterruptedRebuildGoesOn|AHistoryGoesOnFromTheCopysPositionOnly)$$
# Tests that take minutes each run in test-kafka-long.
KAFKA_LONG := RunsOver
.PHONY: kafka-installed kafka-own kafka-logs kafka-roles kafka-projections
test-kafka: kafka-installed ## test everything that uses Kafka on three real brokers; needs Java 17, and Maven the first time
	$(GO) vet -tags kafka $(KAFKA_OWN) $(KAFKA_LOGS) $(KAFKA_ROLES) ./projections ./cmd/lumenhook
	$(LAB) vet -tags kafka ./bench
	$(MAKE) -j 2 --output-sync=target kafka-projections kafka-roles kafka-logs kafka-own

kafka-installed:
	@command -v java >/dev/null || { echo "test-kafka needs Java 17 or later (Debian: apt-get install openjdk-17-jre-headless)"; exit 1; }
	$(GO) run ./internal/kafkatest/with

kafka-own:
	$(KAFKA_TEST) $(KAFKA_OWN)
	cd internal/lab && $(KAFKA_TEST) -run RealKafka ./bench
	$(KAFKA_TEST) -run 'DoctorOfARealCluster|ProductionIsFollowed' ./cmd/lumenhook

kafka-logs:
	$(GO) run ./internal/kafkatest/with $(KAFKA_TEST) -skip '$(KAFKA_LONG)' $(KAFKA_LOGS)

kafka-roles:
	$(GO) run ./internal/kafkatest/with $(KAFKA_TEST) $(KAFKA_ROLES)

kafka-projections:
	$(GO) run ./internal/kafkatest/with $(KAFKA_TEST) $(if $(SAMPLE),-run '$(KAFKA_SAMPLE)') ./projections

test-kafka-long: kafka-installed ## run 33,000 transactions under one id, more than a producer epoch can count
	$(GO) test -tags kafka -count 1 -v -timeout 60m -run '$(KAFKA_LONG)' ./streams/task

PAYMENTS ?= 20000
test-cluster: kafka-installed ## send PAYMENTS=20000 through seven real processes and three real brokers while each role and each broker is killed
	$(GO) vet -tags kafka ./cmd/lumenhook
	$(GO) test -tags kafka -count 1 -v -run ClusterDelivers -timeout 60m ./cmd/lumenhook -cluster.payments=$(PAYMENTS) $(ARGS)

test-browser: ## test the console, the site and cross-origin attacks in a real Chromium; needs Node and Python
	$(GO) vet -tags browser ./cmd/lumenhook
	$(LAB) vet -tags browser ./site
	$(GO) test -tags browser -run Browser -timeout 10m ./cmd/lumenhook
	$(LAB) test -tags browser -run Browser -timeout 10m ./site

# Each library is fetched from its registry at its locked version.
test-signatures: ## verify webhooks with the Standard Webhooks libraries of five languages; needs Node, Python with pip, a Java 17 JDK, Maven and Rust
	$(GO) vet -tags signatures ./cmd/lumenhook
	$(GO) test -tags signatures -count 1 -run LibrariesVerify -timeout 10m ./cmd/lumenhook

# Each kit fetches its dependencies once, at their locked versions, into its own folder.
test-receivers: ## test the receiver kits as processes, the generated API clients, and the API samples in Python, Java and Rust; needs what test-signatures needs
	$(GO) vet -tags receivers ./cmd/lumenhook
	$(GO) test -tags receivers -count 1 -run 'ReceiverKits|GeneratedClient|SamplesOfOther' -timeout 10m ./cmd/lumenhook

test-shells: ## test completion in a real zsh and fish, installed as `lumenhook completion --help` says; needs both (Debian: zsh, fish)
	$(GO) vet -tags shells ./cmd/lumenhook
	$(GO) test -tags shells -count 1 -run ShellsComplete -timeout 10m ./cmd/lumenhook

test-package: ## test the .deb in its own namespaces: install, run in the unit's sandbox, upgrade, remove; needs root, Debian and systemd-analyze
	cd deploy/check && $(GO) vet -tags package . && $(GO) test -tags package -count 1 -run 'ThePackage|OneMachine' -timeout 10m .

lint: ## run vet, golangci-lint (.golangci.yml), Vale (docs/.vale) and govulncheck
	@$(LAB) run ./weigh
	@$(MAKE) --no-print-directory format
	@docs/.vale/check
	$(GO) vet ./...
	$(GO) vet -tags noengine ./internal/embedded/clickhouse
	@set -e; for module in $(TEST_MODULES); do echo "vet $$module"; (cd $$module && $(GO) vet ./...); done
	$(GOLANGCI)
	$(GOLANGCI_LAB)
	$(GOLANGCI) --build-tags embedded $(EMBEDDED_ONLY)
	@said=$$($(GOVULNCHECK) 2>&1) || case "$$said" in \
		*"fetching vulnerabilities:"*) echo "govulncheck: NOT CHECKED, cannot reach its database (for a copy: make vuln VULNDB=file:///path): $$said" ;; \
		*) echo "$$said"; exit 1 ;; \
	esac

.PHONY: format
format:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }

.PHONY: weigh
weigh: ## count lines, packages, files, commands, flags and dependencies by area, next to their budgets
	@$(LAB) run ./weigh

# systemd-analyze needs the unit's program to exist; deploy/check checks its command line.
# systemd only warns about unknown settings. Here they are errors.
lint-units: ## check the systemd units and their exposure with systemd-analyze; needs systemd-analyze (Debian: systemd)
	@dir=$$(mktemp -d) && for unit in lumenhook@.service lumenhook.service lumenhook-backup.service lumenhook-backup.timer; do \
			sed -E "s#/usr/(local/)?bin/lumenhook#$$(command -v env)#" deploy/systemd/$$unit > "$$dir/$$unit"; done \
		&& said=$$(SYSTEMD_UNIT_PATH="$$dir:" systemd-analyze verify "$$dir"/* 2>&1); ended=$$?; rm -r "$$dir"; \
		case "$$ended $$said" in "0 "*lumenhook*) ended=1 ;; esac; test -z "$$said" || echo "$$said"; exit $$ended
	@systemd-analyze security --offline=true --threshold=20 deploy/systemd/lumenhook.service > /dev/null
	@systemd-analyze security --offline=true --threshold=30 deploy/systemd/lumenhook-backup.service > /dev/null

lint-openapi: ## check openapi.yaml with Redocly; needs the network the first time
	npx --yes @redocly/cli@2.77.0 lint schemas/openapi.yaml

vuln: ## look for known vulnerabilities in the code we call; needs the network, or VULNDB=file:///path
	$(GOVULNCHECK)

fuzz: ## run each fuzz test for FUZZTIME=30s
	@set -e; for package in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do \
		for name in $$(grep -ho '^func Fuzz[A-Za-z0-9]*' $$package/*_test.go | cut -c6-); do \
			echo "$$package $$name"; \
			nice -n 19 $(GO) test -run XXX -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x -parallel 1 ./$$package; \
		done; \
	done

.PHONY: race-product race-lab
race: race-product race-lab ## run the tests under the race detector; needs a C compiler

race-product:
	CGO_ENABLED=1 $(GO) test -race -vet off -timeout 60m ./...

race-lab:
	cd internal/lab && CGO_ENABLED=1 $(GO) test -race -vet off -timeout 60m ./...

nightly: ## run everything that takes hours: the tests that make test leaves out, race, the long suites, an hour each of fresh seeds; continues after a failure
	$(MAKE) --keep-going test-nightly test-kafka race test-kafka-long test-cluster reconcile-soak mutants fuzz sim trial FOR=1h

.PHONY: test-nightly
test-nightly: ## run all tests with the tag nightly: more kills and power failures, and tests that wait for minutes
	$(MAKE) --keep-going test-product test-modules TEST='$(TEST) -tags nightly -timeout 3h'

SEED ?= 0
STEPS ?= 1500
FOR ?= 60s
SEEDS ?= 0
sim: ## simulate: SEED=n STEPS=n runs one seed and prints its transcript; otherwise fresh seeds for FOR=60s, at most SEEDS=n
	$(LAB) test -count 1 -timeout 24h -v -run TestSeeds ./sim -sim.first=0 -sim.seed=$(SEED) -sim.steps=$(STEPS) -sim.for=$(FOR) -sim.seeds=$(SEEDS)

mutants: ## check that the simulator finds every planted defect; make test checks a fixed eighth of them
	$(LAB) test -count 1 -timeout 2h -run TestMutantsAreFound ./sim -sim.mutants=1

OPS ?= 250
KEEP ?= $(CURDIR)/trials
SCRIPT ?=
FROM ?=
trial: ## try the real program from outside: fresh seeds for FOR=60s (FROM=text repeats a choice of seeds), SEED=n, or SCRIPT=file; OPS=n operations; shrinks failures into KEEP
	$(LAB) test -count 1 -timeout 24h -v -run TestFreshSeeds ./trial -trial.seed=$(SEED) -trial.from=$(FROM) -trial.ops=$(OPS) -trial.for=$(FOR) -trial.script=$(abspath $(SCRIPT)) -trial.keep=$(abspath $(KEEP))

SOAK ?= 1000000
reconcile-soak: ## send SOAK=1000000 payments while the source misbehaves and the program is killed, then explain every one
	$(GO) test -tags nightly -count 1 -v -run PaymentsThroughFaults -timeout 6h ./cmd/lumenhook -soak.payments=$(SOAK) -soak.rounds=20

# Results depend on the machine and its load, so they are not committed. Every line is a Go
# benchmark, and benchstat compares two result files.
LINES ?= all
REPS ?= 5
BENCHSTAT := $(LAB) tool benchstat
bench: build ## write the table of docs/benchmarks.md to bench/results: LINES=all REPS=5 takes hours; LINES=deliver/endpoints=8,latency REPS=1 runs some lines; LINES=help lists them; ARGS='-deliveries 5000' passes flags
	@$(LAB) run ./bench/table -lines $(LINES) -reps $(REPS) -- $(ARGS)

bench-compare: ## compare two results of make bench with benchstat: OLD=old.txt NEW=bench/results/latest.txt
	@$(BENCHSTAT) $(abspath $(OLD)) $(abspath $(NEW))

NEW ?= bench/results/latest.txt
bench-waiting: ## measure restart and cost with a million pending deliveries, healthy endpoints next to 50 that hang, and ordered wallets
	$(LAB) test -run XXX -bench 'Waiting|TakeOver|Fairness|Ordering' -benchtime 1x -timeout 60m ./bench $(ARGS)

bench-api: ## measure API requests per second; LUMENHOOK_BENCH_WATCHES=1000000 loads watches first
	$(GO) test -run XXX -bench API -benchtime 1x -timeout 20m ./cmd/lumenhook $(ARGS)

bench-match: ## match payments against 1,000,000 watches, next to a map lookup; ARGS='-watches 100000' for fewer
	$(GO) test -run XXX -bench Match -cpu 1 -benchtime 3s -timeout 20m ./streams/follower $(ARGS)

bench-projections: ## measure rebuilds, the live projector, and reads among 10,000,000 attempts; ARGS='-attempts 1000000' for fewer
	$(GO) test -run XXX -bench 'Rebuild|LiveProjector|Reads' -benchtime 1x -timeout 40m ./projections $(ARGS)

bench-statement: ## measure statements of wallets with 10 to 100,000 moves, next to plain ClickHouse queries, and the follower with and without balance moves
	$(GO) test -run XXX -bench Statement -benchtime 20x -timeout 15m ./cmd/lumenhook $(ARGS)
	$(GO) test -run XXX -bench BalanceMoves -benchtime 5x -count 5 ./streams/follower $(ARGS)

bench-reader: ## measure the questions of docs/guides/connect-a-tool.md as the user reader, on the traffic of lumenhook devnet load
	$(GO) test -run XXX -bench Reader -benchtime 20x -timeout 15m ./cmd/lumenhook $(ARGS)

bench-receipts: ## measure proofs among 100,000 leaves, by ClickHouse and in memory, and the cost of receipts per attempt
	$(GO) test -run XXX -bench Proof -benchtime 200x -count 3 ./projections $(ARGS)
	$(GO) test -run XXX -bench AttemptLog -count 3 ./domain $(ARGS)

bench-ledger: ## measure reading payments from real ledgers, and from one of 1,000 payments as RPC JSON, zstd and XDR, on one core
	$(GO) test -run XXX -bench 'From' -cpu 1 -benchtime 5s -timeout 10m ./internal/stellar/source $(ARGS)
	$(GO) test -run XXX -bench 'ExtractReal' -cpu 1 -benchtime 3s -timeout 10m ./internal/stellar/ledger $(ARGS)

site: ## build the documentation site into bin/site; needs Python and Node
	@internal/lab/site/build

SITE_PORT ?= 8181
site-serve: site ## serve the site at http://127.0.0.1:8181 (SITE_PORT)
	@python3 -m http.server --bind 127.0.0.1 --directory bin/site $(SITE_PORT)

charts: ## draw the charts of docs/analytics.md from a one-minute run
	$(GO) test ./cmd/lumenhook -count 1 -run TheChartsAreOfARun -write-charts

recording: build ## record the README's first webhook in a shell
	$(LAB) run ./recording

GORELEASER ?= $(GO) run github.com/goreleaser/goreleaser/v2@v2.14.0
release-snapshot: ## build the release archives, packages, checksums and SBOMs into dist/, without a tag
	$(GORELEASER) release --snapshot --clean

generate: ## regenerate the code of schemas/kafka
	cd schemas/kafka && $(BUF) generate

CLIENTS := api/clients
generate-clients: ## generate typed API clients from openapi.yaml into api/clients/*/build; fails on a generator warning; needs Node and Python with pip
	cd $(CLIENTS)/typescript && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent build
	cd $(CLIENTS)/python && python3 -m pip install --quiet --require-hashes --only-binary :all: --upgrade --target build/deps --requirement requirements.txt
	cd $(CLIENTS)/python && PYTHONPATH=build/deps python3 -m openapi_python_client generate --fail-on-warning --meta setup --path ../../../schemas/openapi.yaml --config config.yaml --output-path build/lumenhook-client --overwrite

clean:
	rm -rf bin
