# make setup | repro | recipe | test | check | bench | lock | clean
#
#   RECIPE  a file of recipes/ to take as params.yaml   make repro RECIPE=ten_minutes
#   PYTHON  the interpreter of the environment          make setup PYTHON=python3.12
#   VENV    where the environment lies                  make test VENV=/tmp/fresh
#   TORCH   what pip is asked for as torch              make setup TORCH=torch==2.13.0+cpu
#   ARGS    passed on to dvc, pytest, the benchmarks or pip-compile
#                                                       make test ARGS='-k sts -x'

PYTHON ?= python3.11
VENV ?= .venv
TORCH ?= torch==2.13.0
ARGS ?=
RECIPE ?=

BIN := $(abspath $(VENV))/bin
NLTK_DATA := data/raw/nltk_data
INSTALLED := $(VENV)/.installed

# dvc.yaml's commands say `python`: it has to be the environment's.
export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DELETE_ON_ERROR:
.PHONY: setup repro recipe test check bench lock clean

setup: $(INSTALLED)
	@$(BIN)/python -m pipeline.corpus.obtain_wordnet $(NLTK_DATA)

repro: setup $(if $(RECIPE),recipe)
	@$(BIN)/pipeline check
	$(BIN)/dvc repro $(ARGS)

recipe:
	@test -f "recipes/$(RECIPE).yaml" || { echo "there is no recipes/$(RECIPE).yaml; RECIPE is one of: $(basename $(notdir $(wildcard recipes/*.yaml)))" >&2; exit 1; }
	@git cat-file -e "$$(git hash-object params.yaml)" 2>/dev/null || { echo "params.yaml has changes that git does not hold: commit them, or undo them with git checkout params.yaml" >&2; exit 1; }
	cp "recipes/$(RECIPE).yaml" params.yaml

test: setup
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/pipeline schema --check

BENCHMARKS := $(wildcard benchmarks/bench_*.py)

bench: setup
	@test -n "$(BENCHMARKS)" || echo "there are no benchmarks/bench_*.py"
	@set -e; for script in $(BENCHMARKS); do echo "$$script"; $(BIN)/python $$script $(ARGS); done

# torch comes first and alone: its CPU and CUDA wheels differ in their hashes and in what they need, so the lock leaves
# both out. Whatever torch brought along is then set to the locked version.
$(INSTALLED): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not on the PATH; name a Python >= 3.11: make setup PYTHON=python3" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Takes minutes: the hashes of all files of all packages are asked for. `ARGS=--upgrade` takes the newest versions.
lock:
	@test -x $(BIN)/pip-compile || { test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); $(BIN)/python -m pip install --quiet pip-tools; }
	echo '$(firstword $(TORCH))' > $(VENV)/constraints.txt
	CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/pip-compile --quiet --generate-hashes --strip-extras --extra dev \
	  --unsafe-package torch --unsafe-package pip --constraint $(VENV)/constraints.txt \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
	  --output-file requirements.lock $(ARGS) pyproject.toml
	@! grep -E '^(nvidia|cuda|triton)' requirements.lock || \
	  { echo "the lock holds CUDA packages: run it where pip finds the CPU wheel of $(firstword $(TORCH))" >&2; exit 1; }

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build *.egg-info
	find pipeline tests -name __pycache__ -type d -prune -exec rm -rf {} +
