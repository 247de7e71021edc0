# parity: the commands of CONTRIBUTING.md. Everything that is fetched is kept
# in CACHE, outside the clone.
GO      ?= go
PYTHON  ?= python3
CACHE   ?= $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/parity
STATICCHECK_VERSION = v0.8.2

export CGO_ENABLED = 0

VENV := $(CACHE)/venv-$(shell cat pydumpers/pyproject.toml Makefile 2>/dev/null | sha256sum | cut -c1-12)
PY   := $(VENV)/bin/python
STATICCHECK := $(CACHE)/bin/staticcheck-$(STATICCHECK_VERSION)

.PHONY: all build demo test test-go test-py test-engines lint bench fuzz corpus generate-check clean

all: build

build: ## bin/parity, one static file
	$(GO) build -trimpath -o bin/parity ./cmd/parity

demo: build ## the main job on real dumps: a port whose layer 20 swaps gate and up
	@echo '$$ parity compare testdata/fixtures/gate-up/ref testdata/fixtures/gate-up/port'
	@bin/parity compare testdata/fixtures/gate-up/ref testdata/fixtures/gate-up/port; \
	  status=$$?; echo; echo "exit status $$status"; test $$status -eq 1

test: test-go test-py ## all quick tests

test-go:
	$(GO) test ./...

test-py: $(VENV)/.done build
	cd pydumpers && PYTHONPATH=src PARITY_BIN=$(CURDIR)/bin/parity $(PY) -m pytest tests

# The package itself is not installed: clones share the environment.
$(VENV)/.done:
	@mkdir -p $(CACHE)
	$(PYTHON) -m venv $(VENV)
	$(PY) -c 'import tomllib; p = tomllib.load(open("pydumpers/pyproject.toml", "rb"))["project"]; print("\n".join(p["dependencies"] + p["optional-dependencies"]["dev"]))' > $(VENV)/requirements.txt
	$(PY) -m pip install -q --disable-pip-version-check -r $(VENV)/requirements.txt
	@touch $@

test-engines: build ## the dumpers on real engines, in cached environments
	PARITY_BIN=$(CURDIR)/bin/parity bash pydumpers/tools/engines/run.sh

lint: $(VENV)/.done $(STATICCHECK) generate-check
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt: $$out"; exit 1; }
	$(GO) vet ./...
	$(STATICCHECK) ./...
	cd pydumpers && $(VENV)/bin/ruff check .
	$(VENV)/bin/ruff check --config pydumpers/pyproject.toml --config 'lint.select = ["E", "F", "W", "I", "B"]' testdata npy $(wildcard bench)
	cd pydumpers && $(VENV)/bin/mypy

$(STATICCHECK):
	@mkdir -p $(CACHE)/bin
	GOBIN=$(CACHE)/bin $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	mv $(CACHE)/bin/staticcheck $@

generate-check: ## the generated assembly is what its generator writes
	bash compare/internal/kernel/_generate/check.sh

bench: build $(VENV)/.done ## our speed beside numpy's, in one run on the same files
	PARITY_BIN=$(CURDIR)/bin/parity $(PY) bench/bench.py

FUZZTIME ?= 10m
fuzz: ## ten minutes for each target
	$(GO) test -run '^$$' -fuzz '^FuzzHeader$$' -fuzztime $(FUZZTIME) ./npy
	$(GO) test -run '^$$' -fuzz '^FuzzManifest$$' -fuzztime $(FUZZTIME) ./dump

corpus: ## the fault corpus and the score of the diagnosis
	$(GO) run ./diagnose/internal/corpus/score

clean:
	rm -rf bin
