# Lanekeeper. `make` prints what there is to make.
#
# Works with the make and the bash of Debian and of macOS (GNU make 3.81,
# bash 3.2).

SHELL := /bin/bash
.DEFAULT_GOAL := help

# The architecture that `make build` builds the functions for.
ARCH ?= $(shell go env GOARCH)

# The packages whose tests run a second time, short, under the race detector.
# Empty skips that pass.
RACE ?= $(patsubst %,./%,$(wildcard shared/db shared/db/postgres shared/db/sqlite)) \
	$(patsubst %,./%/...,$(wildcard shared/lane shared/queue shared/event shared/ratelimit \
	shared/outbox shared/follow shared/secret shared/task shared/coordinate shared/budget shared/thread shared/reason shared/edge))

# SQLite is C that was translated to Go. It is not what the race detector looks for, and is five times
# as slow with it.
RACE_FLAGS ?= -gcflags='modernc.org/...=-race=false'

# The packages whose tests stop a process at named points, which exist with the tag "faults" only. Empty
# skips that pass.
FAULTS ?= ./shared/fault ./shared/work ./shared/approval

# What `make test` tests, and how. `make check` has vetted the code. Packages begin in the order of this
# list, the longest first. Tests also wait, for servers and for kills: on two processors four packages at a
# time are done sooner than two.
PKGS       ?= ./infra/rig/chaos ./infra/local ./shared/api ./infra/rig/engineroom ./shared/turn ./...
AT_A_TIME  ?= $(if $(filter 2,$(shell getconf _NPROCESSORS_ONLN)),-p 4)
TEST_FLAGS ?= -timeout 30m -vet=off $(AT_A_TIME)

# The checks, the tests and the binaries are compiled in one way, so that each package is compiled
# once for all of them. Without symbols the tests are linked in half the time. Without HTTP/2 a binary is
# 350 KB smaller: only clients of AWS would use it, and they also speak HTTP/1.1.
TAGS        := lambda.norpc,nethttpomithttp2
CGO_ENABLED ?= 0
GOFLAGS     ?= -trimpath -tags=$(TAGS)
export CGO_ENABLED GOFLAGS

# The tests and the linter are short, and have memory: they collect garbage less often.
test check: export GOGC := $(or $(GOGC),400)
TEST_LINK   := -ldflags=-s

FUNCTIONS  := $(patsubst functions/%/main.go,%,$(wildcard functions/*/main.go))
GO_BUILD   := CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -tags $(TAGS)
GO_LAMBDA  := GOOS=linux $(GO_BUILD)
GO_TOOL    := go tool -modfile=infra/rig/tools/go.mod

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: bin/lanekeeper ## Start everything in one process on SQLite, until Ctrl-C
	bin/lanekeeper dev

.PHONY: recording
recording: ## Record a newcomer's first minutes in infra/docs/five-minutes.svg
	go run ./infra/rig/recording

.PHONY: migrate
migrate: bin/lanekeeper ## Bring the database in DATABASE_URL or SQLITE_PATH up to date
	bin/lanekeeper migrate

.PHONY: build
build: $(FUNCTIONS:%=bin/%/bootstrap) bin/lanekeeper ## Build bin/<function>/bootstrap (ARCH=arm64 or amd64) and bin/lanekeeper

# Go knows better than make what is up to date.
.PHONY: FORCE
bin/%/bootstrap: FORCE
	GOARCH=$(ARCH) $(GO_LAMBDA) -o $@ ./functions/$*
bin/lanekeeper: FORCE
	$(GO_BUILD) -o $@ ./infra/local
bin/withservers: FORCE
	@go build -o $@ ./infra/rig/withservers

.PHONY: web
web: ## Build the Engine Room's page from shared/engineroom/web to dist
	go run ./infra/rig/engineroom/web

.PHONY: screenshots
screenshots: ## Take the pictures of the Engine Room from a running demo to infra/docs/engineroom
	go run ./infra/rig/engineroom/shots -to infra/docs/engineroom overview activity traces tasks approvals lanes skills spend

# The summary of go test is to be the last thing printed: nothing comes after.
.PHONY: test
test: bin/withservers ## Run all tests on private servers (PKGS=./shared/lane, RACE= FAULTS= skip the first passes)
ifneq ($(strip $(RACE)),)
	CGO_ENABLED=1 bin/withservers -- go test -race -short $(TEST_LINK) $(RACE_FLAGS) $(TEST_FLAGS) $(RACE)
endif
ifneq ($(strip $(FAULTS)),)
	bin/withservers -- go test -tags faults,$(TAGS) -run 'Point|Driver|Effect' $(TEST_LINK) $(TEST_FLAGS) $(FAULTS)
endif
	bin/withservers -- go test $(TEST_LINK) $(TEST_FLAGS) $(PKGS)

.PHONY: bench
bench: ## Measure the figures of the design beside their limits and rivals
	go run ./infra/rig/bench

.PHONY: chaos
chaos: bin/withservers ## Prove the promises at their full figures: hours (ONLY='R3[456]' proves some)
	bin/withservers -- go run ./infra/rig/promise/prove -only '$(ONLY)'

.PHONY: mutants
mutants: bin/withservers ## Break the shipped code on purpose: hours (FROM=120 goes on there, ONLY=fence tries some)
	bin/withservers -- go run ./infra/rig/mutants -only '$(ONLY)' -from '$(or $(FROM),1)'

.PHONY: check
check: format-check lint tidy-check template-check ## Check form: gofmt, vet and lint, go.mod, template

.PHONY: fmt
fmt: ## Format the code
	gofmt -w .

.PHONY: format-check
format-check:
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "not formatted (make fmt does it):"; echo "$$unformatted"; exit 1; fi

.PHONY: lint
lint: ## Run golangci-lint, and go vet within it (it compiles itself the first time: minutes)
	$(GO_TOOL) golangci-lint run

.PHONY: tidy-check
tidy-check:
	go mod tidy -diff

# All CloudFormation templates; infra has other YAML as well.
.PHONY: template-check
template-check:
	@templates=$$(grep -ls AWSTemplateFormatVersion template.yaml infra/*.yaml); \
	if [ -z "$$templates" ]; then echo "template-check: no template"; \
	elif command -v cfn-lint >/dev/null; then echo cfn-lint $$templates; cfn-lint $$templates; \
	else echo "################ NOT CHECKED: $$templates" >&2; \
		echo "################ cfn-lint is missing: pip install cfn-lint" >&2; fi

# `sam build` makes build-<LogicalId> for each function, at the root, with
# ARTIFACTS_DIR set: HeartbeatFunction is functions/heartbeat. The certificate that
# signs the database's, if there is one, stands beside it: in /var/task on Lambda.
DATABASE_ROOT ?= $(wildcard infra/database-root.pem)
build-%Function:
	GOARCH=arm64 $(GO_LAMBDA) -o $(ARTIFACTS_DIR)/bootstrap \
		./functions/$(shell echo $* | tr '[:upper:]' '[:lower:]')
	$(if $(DATABASE_ROOT),cp $(DATABASE_ROOT) $(ARTIFACTS_DIR)/database-root.pem)
