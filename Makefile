# make setup | repro | recipe | test | test-avx2 | check | bench | compat | lock | lock-check | clean
#
#   RECIPE  a file of recipes/ to take as params.yaml   make repro RECIPE=ten_minutes
#   PYTHON  the interpreter of the environment          make setup PYTHON=python3.13
#   VENV    where the environment lies                  make test VENV="/tmp/a fresh one"
#   TORCH   what pip is asked for as torch              make setup TORCH=torch==2.13.0+cpu
#   ARGS    passed on to dvc, pytest, the benchmarks or uv
#                                                       make test ARGS='-k sts -x'

# Empty: the first of these that is there and new enough.
PYTHON ?=
PYTHONS := python3.11 python3.12 python3.13 python3.14 python3
VENV ?= .venv
TORCH ?= torch==2.13.0
ARGS ?=
RECIPE ?=

# Paths may have spaces: in targets and prerequisites make would split them, so they stand in recipes alone, in quotes.
ENVIRONMENT := $(if $(filter /%,$(firstword $(VENV))),$(VENV),$(CURDIR)/$(VENV))
BIN := $(ENVIRONMENT)/bin
INSTALLED := $(ENVIRONMENT)/.installed
NLTK_DATA := data/raw/nltk_data

# dvc.yaml's commands say `python`: it has to be the environment's.
export PATH := $(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: setup environment python repro recipe test test-avx2 check bench compat lock lock-check clean

setup: environment
	@"$(BIN)/python" -m pipeline.cli.obtain_wordnet $(NLTK_DATA)
	@"$(BIN)/dvc" add --quiet $(NLTK_DATA)

repro: setup $(if $(RECIPE),recipe)
	@"$(BIN)/pipeline" check
	"$(BIN)/dvc" repro $(ARGS)

recipe:
	@test -f "recipes/$(RECIPE).yaml" || { echo "there is no recipes/$(RECIPE).yaml; RECIPE is one of: $(basename $(notdir $(wildcard recipes/*.yaml)))" >&2; exit 1; }
	@git cat-file -e "$$(git hash-object params.yaml)" 2>/dev/null || { echo "params.yaml has changes that git does not hold: commit them, or undo them with git checkout params.yaml" >&2; exit 1; }
	cp "recipes/$(RECIPE).yaml" params.yaml

test: setup
	"$(BIN)/python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

# What multiplies matrices and trains, once more as on an x86 processor without AVX-512. onnxruntime does not know these
# switches: of tests/export those are here that compare its vectors with torch's, benchmarks/bench_int8.py has the rest.
# What is left out kills or joins processes, fills disks, reads stores, asks servers, searches (faiss has switches of its
# own) or traces graphs.
AVX2_TESTS := tests/core/test_machine.py tests/cli/test_embed.py tests/cli/test_encoders.py tests/encoders \
  tests/score tests/select tests/teacher tests/train \
  $(patsubst %,tests/export/test_onnx.py::%,test_onnx_gives_the_students_vectors test_int8_is_near_and_smaller) \
  $(patsubst %,--ignore-glob='*_%.py',killed workers world flow disk ray faults store storage \
    resume checkpoint damage card api encode key search speed labels significance items) \
  --deselect tests/train/test_whitening.py::test_onnx_and_int8_have_it
test-avx2: export ONEDNN_MAX_CPU_ISA := AVX2
test-avx2: export ATEN_CPU_CAPABILITY := avx2
test-avx2: setup
	"$(BIN)/python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS) $(AVX2_TESTS)

check: environment
	"$(BIN)/ruff" check
	"$(BIN)/ruff" format --check
	"$(BIN)/mypy"
	"$(BIN)/pipeline" schema --check

BENCHMARKS := $(wildcard benchmarks/bench_*.py)

bench: setup
	@test -n "$(BENCHMARKS)" || echo "there are no benchmarks/bench_*.py"
	@set -e; for script in $(BENCHMARKS); do echo "$$script"; "$(BIN)/python" $$script $(ARGS); done

# What ships, loaded by other runtimes, each in an environment of its own (some GB under .compat/).
compat: setup
	"$(BIN)/python" benchmarks/compat.py $(ARGS)

python:
	@test -x "$(BIN)/python" || { \
	  old="import sys; sys.exit(sys.version_info < (3, 11))"; found="$(PYTHON)"; \
	  for one in $(if $(PYTHON),,$(PYTHONS)); do \
	    "$$one" -c "$$old" 2>/dev/null && { found="$$one"; break; }; \
	  done; \
	  test -n "$$found" || { echo "there is no Python 3.11 or newer on the PATH; name one: make setup PYTHON=/path/to/python3" >&2; exit 1; }; \
	  "$$found" -c "" 2>/dev/null || { echo "$$found is no Python; name a Python 3.11 or newer: make setup PYTHON=python3" >&2; exit 1; }; \
	  "$$found" -c "$$old" || { echo "$$found is $$("$$found" --version), and 3.11 or newer is needed: make setup PYTHON=python3.12" >&2; exit 1; }; \
	  "$$found" -m venv "$(ENVIRONMENT)"; \
	}

# torch comes first and alone: its CPU and CUDA wheels differ in their hashes and in what they need, so the lock leaves
# both out. Whatever torch brought along is then set to the locked version.
environment: python
	@test -e "$(INSTALLED)" -a ! requirements.lock -nt "$(INSTALLED)" -a ! pyproject.toml -nt "$(INSTALLED)" || { \
	  set -ex; \
	  "$(BIN)/python" -m pip install --quiet $(TORCH); \
	  "$(BIN)/python" -m pip install --quiet --no-deps --require-hashes --requirement requirements.lock; \
	  "$(BIN)/python" -m pip install --quiet --no-deps --no-build-isolation --editable .; \
	  touch "$(INSTALLED)"; \
	}

# One lock for every Python from 3.11 on, Linux and macOS. `ARGS=--upgrade` takes the newest versions.
lock: python
	@test -x "$(BIN)/uv" || "$(BIN)/python" -m pip install --quiet uv
	@echo '$(firstword $(TORCH))' > "$(ENVIRONMENT)/constraints.txt"
	"$(BIN)/uv" pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes \
	  --no-emit-package torch --constraint "$(ENVIRONMENT)/constraints.txt" \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' \
	  --output-file requirements.lock $(ARGS) pyproject.toml

# Does every locked package have a wheel for every Python and platform that the README names, and torch? Nothing is
# installed. Two are built from source where they have none: antlr4 (Python alone) and pytrec-eval-terrier (C).
PLATFORMS := x86_64-manylinux_2_28 aarch64-manylinux_2_28 aarch64-apple-darwin
lock-check: environment
	@set -e; for platform in $(PLATFORMS); do for version in 3.11 3.12 3.13 3.14; do \
	  for wanted in '$(firstword $(TORCH))' '--require-hashes --requirement requirements.lock'; do \
	    MACOSX_DEPLOYMENT_TARGET=14.0 "$(BIN)/uv" pip install --quiet --dry-run --no-deps --only-binary :all: \
	      --no-binary antlr4-python3-runtime --no-binary pytrec-eval-terrier --target "$(ENVIRONMENT)/nothing" \
	      --python-version $$version --python-platform $$platform $$wanted; \
	  done; echo "$$platform, Python $$version: complete"; \
	done; done

clean:
	rm -rf "$(ENVIRONMENT)" .mypy_cache .ruff_cache .hypothesis build *.egg-info
	find pipeline tests -name __pycache__ -type d -prune -exec rm -rf {} +
