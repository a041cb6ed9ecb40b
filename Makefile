# What people run: `make run` shows the guard at work, `make test` is every check there is, `make bench` measures.
# Needs Go 1.26 and a C compiler (for the race detector). Everything else is fetched as Go modules, with pinned versions.

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
MODULES     := . examples
FUZZTIME    ?= 10000x
BENCHTIME   ?= 1s

.PHONY: run test bench check vet format tidy lint race allocs fuzz

run: ## the quickstart: a guarded agent in three kinds of trouble
	cd examples && go run ./quickstart

test: check race allocs fuzz ## everything that CI checks

check: vet format tidy lint

vet:
	@for m in $(MODULES); do echo "vet $$m"; (cd $$m && go vet ./...) || exit 1; done

format:
	@bad=$$(gofmt -l .); test -z "$$bad" || { echo "not gofmt-ed:"; echo "$$bad"; exit 1; }

tidy: ## each go.mod says exactly what its module needs, without the workspace
	@for m in $(MODULES); do echo "tidy $$m"; (cd $$m && GOWORK=off go mod tidy -diff) || exit 1; done

lint:
	@for m in $(MODULES); do echo "staticcheck $$m"; (cd $$m && go run $(STATICCHECK) ./...) || exit 1; done

race: ## all tests, the examples among them
	@for m in $(MODULES); do echo "test $$m"; (cd $$m && go test -race ./...) || exit 1; done

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

bench: ## begin and end of a call, beside one SHA-256 pass over the same output
	go test ./middleware -run '^$$' -bench . -benchtime $(BENCHTIME)
