# The whole interface of this repository: make run, test, lint, race, bench, bench-projections, generate.
export CGO_ENABLED ?= 0
GO ?= go
BUF := $(GO) run github.com/bufbuild/buf/cmd/buf@v1.75.0

.PHONY: run build test lint race bench bench-projections generate clean

run: build ## build and start everything; Ctrl-C stops it
	@./bin/lumenhook run $(ARGS)

build: ## the program, as ./bin/lumenhook
	$(GO) build -trimpath -o bin/lumenhook ./cmd/lumenhook

test: lint ## everything, with real parts
	$(GO) test -timeout 10m ./...

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not formatted: $$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

race: ## the tests under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 20m ./...

bench: ## the whole path at full speed, beside its floor
	$(GO) test -run XXX -bench Path -benchtime 1x -timeout 15m ./internal/bench $(ARGS)

bench-projections: ## rebuild, live projector, and reads among 10,000,000 attempts; ARGS='-attempts 1000000' for fewer
	$(GO) test -run XXX -bench 'Rebuild|LiveProjector|Reads' -benchtime 1x -timeout 40m ./projections $(ARGS)

generate: ## generated code of schemas/kafka
	cd schemas/kafka && $(BUF) generate

clean:
	rm -rf bin
