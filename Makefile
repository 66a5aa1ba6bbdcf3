# Two commands: `make demo` shows the whole road on the sample data, `make test` proves it. Both make what they need.

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
            $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
RUN := $(VENV)/bin/python
EXTRAS := cpu,cluster,serve,track,dev
DATA ?=
WORKERS ?= 2

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Caches stay in the checkout, so that nothing depends on a home folder that can be written.
export MPLCONFIGDIR := $(CURDIR)/$(VENV)/cache/matplotlib

# mkdocs and its theme print adverts for their successors.
export DISABLE_MKDOCS_2_WARNING := true
export NO_MKDOCS_2_WARNING := 1

.PHONY: demo test env check docs clean help
.DEFAULT_GOAL := help

help:
	@echo "make demo             the whole road on the sample data, minutes on a laptop; results in demo-out/"
	@echo "make demo DATA=PATH   the same on your own PubMed or JATS files"
	@echo "make test             all tests"
	@echo "make check            style, types, import contracts, documentation"
	@echo "make docs             the documentation as a web site in site/"
	@echo "make env              only the environment, in $(VENV)"
	@echo "make clean            remove the environment and everything that was made"

demo: env
	$(RUN) examples/demo.py --out demo-out $(if $(DATA),--data "$(DATA)")

test: env
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n $(WORKERS) --dist loadfile --max-worker-restart 0 $(ARGS)

check: env
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'
	$(RUN) -m mkdocs build --strict --quiet

docs: env
	$(RUN) -m mkdocs build --strict

env: $(VENV)/.done

# The stamp holds the checkout's path: an environment that moved with its checkout would import the old sources.
ifneq ($(shell cat $(VENV)/.done 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/.done
endif

# torch first and alone, so that its pin decides which build is taken; a CPU build is enough.
$(VENV)/.done: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "biosmith needs Python 3.11 or newer; say which one with PYTHON=..." >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(RUN) -m pip install --constraint constraints.txt torch
	$(RUN) -m pip install --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@printf '%s\n' "$(CURDIR)" > $@

clean:
	rm -rf $(VENV) demo-out site dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
