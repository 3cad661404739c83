# The whole interface of this repository; make help lists it.
export CGO_ENABLED ?= 0
GO ?= go
BUF := $(GO) run github.com/bufbuild/buf/cmd/buf@v1.75.0

# The linters are modules of their own (deploy/lint, deploy/lint/vale): they bring 200 others, of use to nobody else.
# Building it takes two minutes of two cores, once; what it found is cached.
# It has vet's analyzers, and builds with all tags that only add files (.golangci.yml).
GOLANGCI := $(GO) tool -modfile deploy/lint/go.mod golangci-lint run --allow-parallel-runners
GOLANGCI_LAB := cd internal/lab && $(GO) tool -modfile ../../deploy/lint/go.mod golangci-lint run --allow-parallel-runners -c ../../.golangci.yml
# Packages with files that only a build without the tag kafka has (.golangci.yml has the tag).
EMBEDDED_ONLY := ./internal/brokertest ./streams/topology
# Where govulncheck finds its database: https://vuln.go.dev when left out, or a
# copy of it, as file:///path.
VULNDB ?=
GOVULNCHECK = $(GO) tool govulncheck $(if $(VULNDB),-db $(VULNDB)) ./...
FUZZTIME ?= 30s
# Modules of their own: what they need is heavy, and of use to their tests only.
TEST_MODULES := internal/lab internal/stellar/oracle deploy/monitoring/check deploy/check
# The laboratory: simulator, trial, benchmarks, the site. The product knows nothing of it.
LAB := cd internal/lab && $(GO)

# What `lumenhook version` says, where the Go command does not say it by itself.
VERSION ?= $(shell git describe --tags 2>/dev/null)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE ?= $(shell git log -1 --format=%cI 2>/dev/null)
MODIFIED ?= $(if $(shell git status --porcelain 2>/dev/null),true,false)
CLI := github.com/lumenhook/lumenhook/internal/cli
LDFLAGS := -X $(CLI).version=$(VERSION) -X $(CLI).commit=$(COMMIT) -X $(CLI).date=$(DATE) -X $(CLI).modified=$(MODIFIED)

.PHONY: help run build test test-kafka test-kafka-long test-cluster test-browser test-signatures test-receivers test-shells lint lint-units lint-openapi vuln fuzz race nightly sim mutants trial reconcile-soak bench bench-waiting bench-api bench-match bench-projections bench-statement bench-receipts bench-ledger bench-compare recording site site-serve charts release-snapshot generate generate-clients clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build and start everything; Ctrl-C stops it
	@./bin/lumenhook run $(ARGS)

build: ## the program, as ./bin/lumenhook
	@echo "building bin/lumenhook; the first time takes a minute or so"
	@$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o bin/lumenhook ./cmd/lumenhook

# What a release has beside the programs, and a package puts where shells look for it.
.PHONY: shell-files
shell-files: ## the scripts of the shells in completions/, and man pages in man/
	@mkdir -p completions
	@$(GO) build -trimpath -tags noengine -o completions/.program ./cmd/lumenhook
	@set -e; for shell in bash zsh fish powershell; do completions/.program completion $$shell > completions/lumenhook.$$shell; done
	@completions/.program man --to man
	@rm completions/.program

# The packages that differ from SINCE, committed or not, of the product and of the laboratory.
SINCE ?= main
CHANGED = $(shell { git diff --name-only --diff-filter=d $$(git merge-base HEAD $(SINCE) 2>/dev/null || echo HEAD); \
	git ls-files --others --exclude-standard; } | grep '\.go$$' | xargs -r -n1 dirname | sort -u | sed 's|^|./|')
OTHER_MODULES := $(foreach module,$(TEST_MODULES),./$(module) ./$(module)/%)
.PHONY: check
check: format ## two minutes, for each change: gofmt, vet, the linter on packages that differ from SINCE=main, and go test -short of the product
	$(GO) vet ./...
	@$(if $(filter-out $(OTHER_MODULES),$(CHANGED)),$(GOLANGCI) $(filter-out $(OTHER_MODULES),$(CHANGED)))
	@$(if $(filter ./internal/lab/%,$(CHANGED)),$(GOLANGCI_LAB) $(patsubst ./internal/lab/%,./%,$(filter ./internal/lab/%,$(CHANGED))))
	$(GO) test -short -vet off -timeout 10m ./...

test: lint test-modules test-product ## everything, with real parts

# lint has vetted.
TEST := test -vet off -timeout 40m
.PHONY: build-all test-product test-modules
test-product:
	$(GO) $(TEST) ./...

test-modules:
	@set -e; for module in $(TEST_MODULES); do echo "== $$module"; (cd $$module && $(GO) $(TEST) ./...); done

build-all:
	$(GO) vet ./...

# The suites that hold on both brokers share a cluster, one package after another: some
# end all brokers. They wait more than they compute, so that two clusters at a time make
# them half as long. Some start brokers of their own only.
KAFKA_OWN := ./internal/kafkatest ./internal/config
KAFKA_LOGS := ./streams/kafka ./streams/task ./streams/commands ./streams/directory ./streams/topology
KAFKA_ROLES := ./streams/engine ./streams/follower ./streams/mailer ./streams/transfer ./projections
# One test at a time: some stop brokers.
KAFKA_TEST := $(GO) test -tags kafka -p 1 -parallel 1 -count 1 -timeout 15m
# What takes minutes by itself is a target of its own: test-kafka-long.
KAFKA_LONG := RunsOver
.PHONY: kafka-installed kafka-own kafka-logs kafka-roles
test-kafka: kafka-installed ## the suites of everything that uses Kafka, on three real brokers; needs Java 17 and, once, Maven
	$(GO) vet -tags kafka $(KAFKA_OWN) $(KAFKA_LOGS) $(KAFKA_ROLES) ./cmd/lumenhook
	$(LAB) vet -tags kafka ./bench
	$(MAKE) -j 2 --output-sync=target kafka-roles kafka-logs kafka-own

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

test-kafka-long: kafka-installed ## 33,000 transactions of one id, which is more than a producer's epoch can count
	$(GO) test -tags kafka -count 1 -v -timeout 60m -run '$(KAFKA_LONG)' ./streams/task

PAYMENTS ?= 20000
test-cluster: kafka-installed ## PAYMENTS=20000 through the real program in seven processes, on three real brokers, while each role and each broker is killed
	$(GO) vet -tags kafka ./cmd/lumenhook
	$(GO) test -tags kafka -count 1 -v -run ClusterDelivers -timeout 60m ./cmd/lumenhook -cluster.payments=$(PAYMENTS) $(ARGS)

test-browser: ## in a real Chromium: a person at the console, the site on wide and narrow screens, and pages of other origins against every port of run; needs Node and Python
	$(GO) vet -tags browser ./cmd/lumenhook
	$(LAB) vet -tags browser ./site
	$(GO) test -tags browser -run Browser -timeout 10m ./cmd/lumenhook
	$(LAB) test -tags browser -run Browser -timeout 10m ./site

# Each is fetched from its registry at the version of its lock file.
test-signatures: ## Standard Webhooks libraries in five languages verify what is sent; needs Node, Python with pip, Java 17 with javac, Maven and Rust
	$(GO) vet -tags signatures ./cmd/lumenhook
	$(GO) test -tags signatures -count 1 -run LibrariesVerify -timeout 10m ./cmd/lumenhook

# What a kit needs is fetched once, at the versions of its lock file, into its own folder.
test-receivers: ## the kits of examples/receivers, as processes (good, repeated, tampered, stale, rotated, oversized, killed), the generated API clients, and the API's samples in Python, Java and Rust; needs what test-signatures needs
	$(GO) vet -tags receivers ./cmd/lumenhook
	$(GO) test -tags receivers -count 1 -run 'ReceiverKits|GeneratedClient|SamplesOfOther' -timeout 10m ./cmd/lumenhook

test-shells: ## TAB in a real zsh and fish, set up as the help of their scripts says; needs both (Debian: zsh, fish)
	$(GO) vet -tags shells ./cmd/lumenhook
	$(GO) test -tags shells -count 1 -run ShellsComplete -timeout 10m ./cmd/lumenhook

lint: ## vet, golangci-lint (.golangci.yml), the English (docs/.vale), known vulnerabilities
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
		*"fetching vulnerabilities:"*) echo "govulncheck: NOT CHECKED, its database cannot be reached (make vuln VULNDB=file:///path takes a copy): $$said" ;; \
		*) echo "$$said"; exit 1 ;; \
	esac

.PHONY: format
format:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }

.PHONY: weigh
weigh: ## lines, packages, files, commands, flags and dependencies by area, next to their budgets
	@$(LAB) run ./weigh

# The unit's program is to be there and no more: its command line is held by deploy/check. A
# setting that systemd does not know is passed over by it, and is a fault here.
lint-units: ## the systemd units, by systemd itself; needs systemd-analyze (Debian: systemd)
	@dir=$$(mktemp -d) && sed "s#/usr/local/bin/lumenhook#$$(command -v env)#" deploy/systemd/lumenhook@.service > "$$dir/lumenhook@.service" \
		&& said=$$(systemd-analyze verify "$$dir/lumenhook@.service" 2>&1); ended=$$?; rm -r "$$dir"; \
		case "$$ended $$said" in "0 "*lumenhook@*) ended=1 ;; esac; test -z "$$said" || echo "$$said"; exit $$ended

lint-openapi: ## openapi.yaml by another's rules; needs the network, once
	npx --yes @redocly/cli@2.77.0 lint schemas/openapi.yaml

vuln: ## known vulnerabilities in what we call; needs the network, or VULNDB=file:///path
	$(GOVULNCHECK)

fuzz: ## each fuzz test for a while (FUZZTIME), one after another
	@set -e; for package in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do \
		for name in $$(grep -ho '^func Fuzz[A-Za-z0-9]*' $$package/*_test.go | cut -c6-); do \
			echo "$$package $$name"; \
			nice -n 19 $(GO) test -run XXX -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x -parallel 1 ./$$package; \
		done; \
	done

.PHONY: race-product race-lab
race: race-product race-lab ## the tests under the race detector; needs a C compiler

race-product:
	CGO_ENABLED=1 $(GO) test -race -vet off -timeout 60m ./...

race-lab:
	cd internal/lab && CGO_ENABLED=1 $(GO) test -race -vet off -timeout 60m ./...

nightly: ## what takes hours: race, the long suites, and an hour each of fresh seeds; one that fails stops no other
	$(MAKE) --keep-going race test-kafka-long test-cluster reconcile-soak mutants fuzz sim trial FOR=1h

SEED ?= 0
STEPS ?= 1500
FOR ?= 60s
SEEDS ?= 0
sim: ## simulated runs: SEED=n STEPS=n for one and its transcript; else fresh seeds for FOR=60s, at most SEEDS=n
	$(LAB) test -count 1 -timeout 24h -v -run TestSeeds ./sim -sim.first=0 -sim.seed=$(SEED) -sim.steps=$(STEPS) -sim.for=$(FOR) -sim.seeds=$(SEEDS)

mutants: ## every defect that is planted in the code is found by the simulator; make test searches a fixed quarter of them
	$(LAB) test -count 1 -timeout 2h -run TestMutantsAreFound ./sim -sim.mutants=1

OPS ?= 250
KEEP ?= $(CURDIR)/trials
SCRIPT ?=
FROM ?=
trial: ## the real program from outside: fresh seeds for FOR=60s (FROM=text draws the same ones again), or SEED=n, or SCRIPT=file; OPS=n operations; failures are shrunk and kept in KEEP
	$(LAB) test -count 1 -timeout 24h -v -run TestFreshSeeds ./trial -trial.seed=$(SEED) -trial.from=$(FROM) -trial.ops=$(OPS) -trial.for=$(FOR) -trial.script=$(abspath $(SCRIPT)) -trial.keep=$(abspath $(KEEP))

SOAK ?= 1000000
reconcile-soak: ## SOAK=1000000 payments to watched wallets, while the source misbehaves and the program is killed: nothing may be unexplained
	$(GO) test -count 1 -v -run PaymentsThroughFaults -timeout 6h ./cmd/lumenhook -soak.payments=$(SOAK) -soak.rounds=20

# Figures are of one machine and hour: they stay out of the repository. Every line is a Go
# benchmark; benchstat compares two of the files that it reads.
LINES ?= all
REPS ?= 5
BENCHSTAT := $(LAB) tool benchstat
bench: build ## the table of docs/benchmarks.md, into bench/results: LINES=all REPS=5 takes hours, LINES=deliver/endpoints=8,latency REPS=1 a part; LINES=help lists them; ARGS='-deliveries 5000' are flags of the benchmarks
	@$(LAB) run ./bench/table -lines $(LINES) -reps $(REPS) -- $(ARGS)

bench-compare: ## two results of make bench by benchstat: OLD=old.txt NEW=bench/results/latest.txt
	@$(BENCHSTAT) $(abspath $(OLD)) $(abspath $(NEW))

NEW ?= bench/results/latest.txt
bench-waiting: ## a million deliveries that wait: restart, and what they cost; healthy endpoints beside 50 that hang; and wallets in their order
	$(LAB) test -run XXX -bench 'Waiting|TakeOver|Fairness|Ordering' -benchtime 1x -timeout 60m ./bench $(ARGS)

bench-api: ## requests a second of the API; LUMENHOOK_BENCH_WATCHES=1000000 loads watches first
	$(GO) test -run XXX -bench API -benchtime 1x -timeout 20m ./cmd/lumenhook $(ARGS)

bench-match: ## payments against 1,000,000 watches, beside a look-up in a map; ARGS='-watches 100000' for fewer
	$(GO) test -run XXX -bench Match -cpu 1 -benchtime 3s -timeout 20m ./streams/follower $(ARGS)

bench-projections: ## rebuild, live projector, and reads among 10,000,000 attempts; ARGS='-attempts 1000000' for fewer
	$(GO) test -run XXX -bench 'Rebuild|LiveProjector|Reads' -benchtime 1x -timeout 40m ./projections $(ARGS)

bench-statement: ## statements of wallets with 10, 1,000 and 100,000 moves, beside ClickHouse's own queries; the follower with balance moves and without
	$(GO) test -run XXX -bench Statement -benchtime 20x -timeout 15m ./cmd/lumenhook $(ARGS)
	$(GO) test -run XXX -bench BalanceMoves -benchtime 5x -count 5 ./streams/follower $(ARGS)

bench-receipts: ## a proof of one of 100,000 leaves by ClickHouse and in memory, and what receipts add to an attempt
	$(GO) test -run XXX -bench Proof -benchtime 200x -count 3 ./projections $(ARGS)
	$(GO) test -run XXX -bench AttemptLog -count 3 ./domain $(ARGS)

bench-ledger: ## from ledgers to payments: real ones, and one of 1,000 payments as RPC JSON, zstd and XDR, on one core
	$(GO) test -run XXX -bench 'From' -cpu 1 -benchtime 5s -timeout 10m ./internal/stellar/source $(ARGS)
	$(GO) test -run XXX -bench 'ExtractReal' -cpu 1 -benchtime 3s -timeout 10m ./internal/stellar/ledger $(ARGS)

site: ## these pages as static files, in bin/site, with a search; needs Python and Node
	@internal/lab/site/build

SITE_PORT ?= 8181
site-serve: site ## the same at http://127.0.0.1:8181 (SITE_PORT)
	@python3 -m http.server --bind 127.0.0.1 --directory bin/site $(SITE_PORT)

charts: ## the pictures of docs/analytics.md: its questions, asked of a run of a minute
	$(GO) test ./cmd/lumenhook -count 1 -run TheChartsAreOfARun -write-charts

recording: build ## the picture of the README: its first webhook, followed in a shell on a service of its own
	$(LAB) run ./recording

GORELEASER ?= $(GO) run github.com/goreleaser/goreleaser/v2@v2.14.0
release-snapshot: ## the archives of a release, with checksums and lists of contents, into dist/, without a tag
	$(GORELEASER) release --snapshot --clean

generate: ## generated code of schemas/kafka
	cd schemas/kafka && $(BUF) generate

CLIENTS := api/clients
generate-clients: ## typed API clients of openapi.yaml, into api/clients/*/build, or an error where a generator warns; needs Node and Python with pip
	cd $(CLIENTS)/typescript && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent build
	cd $(CLIENTS)/python && python3 -m pip install --quiet --require-hashes --only-binary :all: --upgrade --target build/deps --requirement requirements.txt
	cd $(CLIENTS)/python && PYTHONPATH=build/deps python3 -m openapi_python_client generate --fail-on-warning --meta setup --path ../../../schemas/openapi.yaml --config config.yaml --output-path build/lumenhook-client --overwrite

clean:
	rm -rf bin
