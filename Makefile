# What people run: `make run` shows the guard at work, `make test` is every check that is quick, `make test-backends` sends
# traces to a real backend, `make test-redis` tests the store on real servers and needs one, `make soak` goes on for a minute,
# `make bench` measures and `make compare` says what has moved. Needs Go 1.26.5 and a C compiler (for the race detector).
# Everything else is fetched as Go modules, with pinned versions.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# All modules are checked and measured as their users see them, without the workspace.
export GOWORK := off
MODULES     := . examples $(patsubst %/go.mod,%,$(wildcard middleware/*/go.mod))
# Its tests are run by test-backends.
APART       := integration_test/backends
FUZZTIME    ?= 10000x
BENCHTIME   ?= 1s
SOAK        ?= 1m
OLD         ?= HEAD
PATTERN     ?= .

# The version that tools/go.mod pins, and where its binary is kept: not in the tree, so that it outlives a checkout.
JAEGER_VERSION := $(shell sed -n 's|.*github.com/jaegertracing/jaeger \(v[^ ]*\).*|\1|p' tools/go.mod)
JAEGER         := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/loopguard/jaeger-$(JAEGER_VERSION)

.PHONY: run test bench compare soak check vet format tidy lint race allocs fuzz test-backends jaeger run-jaeger test-redis bench-redis

run: ## the quickstart: a guarded agent in three kinds of trouble
	cd examples && go run ./quickstart

test: check race allocs fuzz ## everything that CI checks, but for test-backends and test-redis
	@echo "All passed. Left to \`make test-backends\`: the tests against a real Jaeger, which takes minutes to build once."
	@command -v redis-server >/dev/null || echo "No redis-server is on the PATH: the tests of the store on Redis were skipped."

check: vet format tidy lint

vet:
	@for m in $(MODULES) $(APART); do echo "vet $$m"; (cd $$m && go vet ./...) || exit 1; done

format:
	@bad=$$(gofmt -l .); test -z "$$bad" || { echo "not gofmt-ed:"; echo "$$bad"; exit 1; }

tidy: ## each go.mod says exactly what its module needs, without the workspace
	@for m in $(MODULES) $(APART); do echo "tidy $$m"; (cd $$m && go mod tidy -diff) || exit 1; done

lint:
	@for m in $(MODULES) $(APART); do \
		echo "staticcheck $$m"; (cd $$m && go run $(STATICCHECK) ./...) || exit 1; \
	done

# CI is for test-redis to mind: here tests of the store on Redis may be skipped.
race: ## all tests, those of the examples and of each adapter among them
	@for m in $(MODULES); do echo "test $$m"; (cd $$m && CI= go test -race ./...) || exit 1; done

allocs: ## what the race detector cannot measure
	go test ./middleware -run 'Allocations|CostsNothing'

# Counted and not timed: a run that ends by the clock now and then reports its own deadline as a failure.
fuzz: ## a few seconds of each fuzz target; FUZZTIME=5m for more
	@for p in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "fuzz $$p $$f"; \
			go test $$p -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x || exit 1; \
		done; \
	done

soak: ## a guard under thousands of agents for a minute; SOAK=10m for more
	go test -race ./integration_test -run TestSoak -v -count 1 -soak $(SOAK) -timeout 0

bench: ## begin and end of a call, beside one SHA-256 pass over the same output; and a replay of the recorded runs
	go test ./middleware ./integration_test -run '^$$' -bench . -benchtime $(BENCHTIME)

compare: ## which benchmarks moved since the commit OLD; PATTERN, COUNT and TIME as in tools/compare
	tools/compare '$(OLD)' '$(PATTERN)'

test-backends: jaeger ## the examples' and the guard's traces, sent to a real Jaeger and read back
	@echo "tidy tools"; cd tools && go mod tidy -diff
	cd integration_test/backends && \
		LOOPGUARD_BACKENDS=required LOOPGUARD_JAEGER="$(JAEGER)" go test -count=1 ./...

jaeger: ## builds Jaeger, if that was not done yet
	@test -x "$(JAEGER)" || { \
		echo "building Jaeger $(JAEGER_VERSION); this takes minutes, and is done once" && \
		mkdir -p "$$(dirname "$(JAEGER)")" && cd tools && \
		go build -ldflags '-s -w' -o "$(JAEGER).$$$$" github.com/jaegertracing/jaeger/cmd/jaeger && \
		mv "$(JAEGER).$$$$" "$(JAEGER)"; \
	}
	@echo "Jaeger $(JAEGER_VERSION) is $(JAEGER)"

run-jaeger: jaeger ## a Jaeger for this machine, until you press Ctrl-C
	@echo "It takes OTLP at http://localhost:4318 and answers at http://localhost:16686/api/traces."
	@exec "$(JAEGER)" --config tools/jaeger.yaml

# Without arguments `go test` also shows what was skipped.
test-redis: ## the store on Redis; needs redis-server on the PATH, and with CI=true a skip is a failure
	cd middleware/redisstore && go test -race -count=1
	cd middleware/redisstore && \
		go test -run '^$$' -fuzz '^FuzzReadEntry$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 10x

bench-redis: ## what a call costs with its history in Redis, beside the store in memory
	cd middleware/redisstore && go test -run '^$$' -bench . -benchtime $(BENCHTIME)
