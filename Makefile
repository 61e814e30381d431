# onerun: build, check and test. `make help` lists the targets.

.DEFAULT_GOAL := build
.NOTPARALLEL: # one step after the other, so that the last lines are the tests' own

GO ?= go
ARGS ?=

# Flags belong here, not in the environment: every clone builds the same program.
BUILD_FLAGS := -trimpath -buildvcs=false
TEST_FLAGS  := -count=1 -timeout=20m

# The race detector looks at all but SQLite itself, which is C in Go's clothes: what it does with its own memory is not ours to
# find, and watching it takes three quarters of the time of every test that uses it. The driver around it is watched.
RACE_FLAGS := -race -gcflags=modernc.org/sqlite/lib=-race=false

BIN := bin/onerun
BESIDE := bin/onerun-full bin/onerun-etcd

# The linter has a module of its own (tools/go.mod) and is built from source. The file is named by what went into it,
# so a warm `make check` doesn't build it again and a new version is never mistaken for the old one.
LINT_PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
LINT_VERSION := $(shell sed -n 's,.*github.com/golangci/golangci-lint/v2 \(v[^ ]*\).*,\1,p' tools/go.mod)
LINT := bin/tools/golangci-lint-$(LINT_VERSION)-$(shell $(GO) env GOVERSION)

.PHONY: build
build: ## Build bin/onerun, and bin/onerun-full and bin/onerun-etcd, which belong beside it (the default)
	@echo "==> build $(BIN) $(BESIDE)"
	@CGO_ENABLED=0 $(GO) build $(BUILD_FLAGS) -o $(dir $(BIN)) ./cmd/onerun ./cmd/onerun-full ./cmd/onerun-etcd

.PHONY: check
check: fmt-check vet lint test ## All that a change must pass: format, vet, lint, test

# Process tests start the program that `build` made, without cgo and without the race detector, however the tests
# themselves are built. The race detector sleeps for a second at each process's exit unless told not to.
test test-quick: export ONERUN_TEST_BINARY := $(CURDIR)/$(BIN)
test: export GORACE := atexit_sleep_ms=0

.PHONY: test
test: test-deps build ## Run all tests with the race detector, after installing what they need
	@echo "==> test, with the race detector"
	@CGO_ENABLED=1 $(GO) test $(RACE_FLAGS) $(TEST_FLAGS) ./...

# Left out by name: the packages whose tests start a server, or need a program that not every machine has (model: spin).
SERVERS := store/postgres store/mysql store/redis store/etcd store/zookeeper store/hostlock cmd/onerun-full internal/schedday model

.PHONY: test-quick
test-quick: build ## Run the tests that need no server, without the race detector, installing nothing
	@echo "==> test, quick"
	@CGO_ENABLED=0 $(GO) test $(TEST_FLAGS) $$($(GO) list ./... | grep -v $(foreach p,$(SERVERS),-e '/$(p)$$'))

.PHONY: model
model: test-deps ## Check the protocol's model with spin (model/README.md)
	@echo "==> model"
	@CGO_ENABLED=0 $(GO) test $(TEST_FLAGS) -v ./model

# Each of these prints a seed, with which TORTURE_SEED repeats its choices. All of it takes twenty minutes on two cores, which
# three stores at a time keep busy.
TORTURE_SECONDS ?= 270
TORTURE_ROUNDS ?= 500

.PHONY: torture
torture: export ONERUN_TEST_BINARY := $(CURDIR)/$(BIN)
torture: export TORTURE_SECONDS := $(TORTURE_SECONDS)
torture: export TORTURE_ROUNDS := $(TORTURE_ROUNDS)
torture: test-deps build ## Kill, freeze and cut off jobs, guards, schedulers and servers on every store, for TORTURE_SECONDS each; TORTURE_REPORT=FILE gets the counts
	@echo "==> torture"
	@$(GO) test -count=1 -timeout=120m -parallel=3 -v -run 'TestThreeHosts|TestThreeSchedulers' ./cmd/onerun-full
	@$(GO) test -count=1 -timeout=120m -v -run 'TestBrokenBuilds' ./cmd/onerun-full
	@$(GO) test -count=1 -timeout=120m -v -run 'TestTorture' ./cmd/internal/cli
	@DAY_HOURS=8 $(GO) test -count=1 -timeout=120m -v ./internal/schedday

FUZZTIME ?= 30s
FUZZ ?= .

.PHONY: fuzz
fuzz: ## Fuzz all that reads what it didn't write, FUZZTIME for each target; FUZZ=NAME for some of them
	@echo "==> fuzz, $(FUZZTIME) for each target"
	@GO="$(GO)" sh scripts/fuzz.sh $(FUZZTIME) '$(FUZZ)'

.PHONY: evidence
evidence: test-deps build ## Check it all anew, and write docs/evidence.md from the logs
	@echo "==> evidence"
	@sh scripts/evidence.sh

.PHONY: test-deps
test-deps: ## Install what the tests need and this machine lacks
	@echo "==> look for what the tests need"
	@sh scripts/test-deps.sh

.PHONY: fmt
fmt: $(LINT) ## Format the Go files in place
	@echo "==> format"
	@$(LINT) fmt

.PHONY: fmt-check
fmt-check: $(LINT)
	@echo "==> check the format"
	@$(LINT) fmt --diff || { echo "make fmt puts this right"; exit 1; }

.PHONY: vet
vet:
	@echo "==> vet"
	@CGO_ENABLED=0 $(GO) vet ./...

.PHONY: lint
lint: $(LINT) ## Run golangci-lint, after checking its configuration
	@echo "==> lint"
	@$(LINT) config verify
	@CGO_ENABLED=0 $(LINT) run ./...

$(LINT):
	@echo "==> build golangci-lint $(LINT_VERSION) (two minutes on two cores, once)"
	@cd tools && CGO_ENABLED=0 $(GO) build $(BUILD_FLAGS) -o ../$@ $(LINT_PACKAGE)

.PHONY: bench
bench: build ## Compare with other programs; ARGS="..." goes to the benchmark: -postgres, -mysql, -redis, -zookeeper, -against REV
	@echo "==> bench $(ARGS)"
	@$(GO) run $(BUILD_FLAGS) ./bench $(ARGS)

# The pages are of the day of the last commit, so that the same source makes the same pages.
.PHONY: man
man: build ## Write the manual pages to bin/man/man1
	@echo "==> manual pages in bin/man/man1"
	@mkdir -p bin/man/man1
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || true)} $(BIN) man --dir bin/man/man1

.PHONY: clean
clean: ## Remove what was built, but for the linter in bin/tools
	@echo "==> clean"
	@rm -rf $(BIN) $(BESIDE) bin/man coverage.out coverage.html

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s%s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
