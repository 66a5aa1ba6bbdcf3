PYTHON ?= python3
VENV := .venv
.PHONY: env
env: $(VENV)/.done
$(VENV)/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install -c constraints.txt torch
	$(VENV)/bin/python -m pip install -c constraints.txt -e '.[track,dev]'
	touch $@
