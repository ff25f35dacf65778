# Two commands matter: `make book` and `make test`. Both make their own environment first; `make help` lists the rest.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
PORT   ?= 8000
# More flags for pip, for example an index that has a smaller build of torch.
PIP_FLAGS ?=
PIP    := $(BIN)/python -m pip --disable-pip-version-check install -q $(PIP_FLAGS) -c constraints.txt
REPORTS := _build/reports
SLUG   ?=
PROFILE ?= cpu
SEED   ?= 0

# One thread a process: two processes do not fight for the cores, and sums are taken in one order.
export OMP_NUM_THREADS ?= 1
export ICML25_PROGRESS ?= 1
export PYDEVD_DISABLE_FILE_VALIDATION = 1

PYTEST := $(BIN)/python -m pytest -q
comma := ,
say = @printf '\n\033[1m==> %s\033[0m\n' '$(1)'

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help env env-test book html read test check lint types pairs claims unit smoke nbval pages wheel \
        lab run sync bench gpu links clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

# --- environment ---------------------------------------------------------------------------------------------------

env: $(VENV)/.book
env-test: $(VENV)/.test

$(BIN)/python:
	$(call say,Making the environment $(VENV))
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v <= (3, 13) or sys.exit("Python 3.11, 3.12 or 3.13 is needed, this is %d.%d: make PYTHON=python3.11 ..." % v)'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.book: pyproject.toml constraints.txt | $(BIN)/python
	$(call say,Installing PyTorch (the largest part))
	@$(PIP) torch
	$(call say,Installing the library and the tools of the book)
	@$(PIP) -e '.[book,lab]'
	@touch $@

$(VENV)/.test: $(VENV)/.book
	$(call say,Installing the test tools)
	@$(PIP) -e '.[test]'
	@touch $@

# --- the book ------------------------------------------------------------------------------------------------------

book: env html  ## build the book and print the page to open
	@printf '\nThe book is ready. Open  file://%s/_build/html/index.html\nor run  make read\n' "$(CURDIR)"

html: env
	$(call say,Building the pages)
	@# A warm build does not read unchanged pages again, and so hides their warnings.
	@rm -rf _build/.doctrees
	@$(BIN)/jupyter-book build . -W --keep-going -q
	@test -s _build/html/index.html

read: env  ## serve the built book on this machine
	@test -s _build/html/index.html || $(MAKE) html
	@$(BIN)/icml25 read --port $(PORT)

# --- checks --------------------------------------------------------------------------------------------------------

test: env-test lint types pairs claims unit smoke nbval html pages wheel  ## everything CI checks
	@$(BIN)/python .ci/count_tests.py $(REPORTS)

check: env-test lint types unit  ## the fast part: lint, types, unit tests

lint: env-test
	$(call say,Lint and format)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: env-test
	$(call say,Types)
	@$(BIN)/mypy

pairs: env
	$(call say,Every notebook is the run of its source)
	@$(BIN)/icml25 sync --check

claims: env
	$(call say,Claims: files$(comma) recorded verdicts$(comma) baselines)
	@$(BIN)/icml25 claims --check

unit: env-test
	$(call say,Unit tests)
	@$(PYTEST) -n $(JOBS) -m 'not browser' --junitxml=$(REPORTS)/unit.xml

smoke: env
	$(call say,Papermill: every chapter at the smoke profile)
	@ICML25_PROGRESS=0 $(BIN)/icml25 run --profile smoke --jobs $(JOBS) --out _build/runs/smoke --fresh

nbval: env-test  ## run notebooks again, against their stored outputs: make nbval SLUG=monkeys
	$(call say,nbval: $(or $(SLUG),every notebook) again$(comma) against its stored outputs)
	@rm -rf _build/records
	@ICML25_PROGRESS=0 ICML25_RECORDS=$(CURDIR)/_build/records $(PYTEST) -p no:cacheprovider -p no:randomly \
	  -o filterwarnings= -o timeout=0 --nbval-lax --nbval-current-env --nbval-cell-timeout 600 \
	  --nbval-sanitize-with tests/nbval_sanitize.cfg -n $(JOBS) --dist loadfile --junitxml=$(REPORTS)/nbval.xml \
	  $(if $(SLUG),$(or $(wildcard book/*/$(SLUG).ipynb),$(error no notebook of $(SLUG))),book)
	$(call say,The run just made$(comma) against the baselines)
	@$(BIN)/icml25 claims $(SLUG) --check --records _build/records

pages: env-test
	$(call say,Every built page in a real browser)
	@$(PYTEST) -m browser --junitxml=$(REPORTS)/pages.xml tests

wheel: env-test
	$(call say,The wheel in an empty environment)
	@$(BIN)/python .ci/check_wheel.py

# --- work ----------------------------------------------------------------------------------------------------------

lab: env  ## open the chapters in JupyterLab
	@$(BIN)/jupyter lab book

run: env  ## run chapters: make run SLUG=monkeys PROFILE=cpu SEED=0
	@$(BIN)/icml25 run $(SLUG) --profile $(PROFILE) --seed $(SEED) --jobs $(JOBS)

sync: env  ## execute the chapters whose source has changed
	@$(BIN)/icml25 sync $(SLUG) --jobs $(JOBS)

bench: env-test  ## time each hot kernel beside its peer (ICML25_RECORD_BENCH=1 keeps the results)
	@set -e; for file in benchmarks/bench_*.py; do printf '\n%s\n' "$$file"; $(BIN)/python "$$file"; done

gpu: env-test  ## on a GPU machine: the gpu profile, held to the gpu baseline
	@$(BIN)/python -c 'import sys, torch; torch.cuda.is_available() or sys.exit("no CUDA device here")'
	@$(PYTEST) -m gpu
	@$(BIN)/icml25 run $(SLUG) --profile gpu --jobs 1 --out _build/runs/gpu
	@$(BIN)/icml25 claims $(SLUG) --check --records _build/runs/gpu

links: env  ## ask every other host that a page links to (needs the network)
	@$(BIN)/jupyter-book build . --builder linkcheck

clean:  ## remove what was built, keep the environment
	rm -rf _build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
