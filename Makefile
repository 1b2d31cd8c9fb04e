# Everything lives in .venv; each target sets up what it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip's notices of a newer pip have no place among the lines of a demo.
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The lock names everything, so pip has nothing to resolve: with dependencies it would look at newer
# releases too, and refuse the first one that the lock has no hash of.
LOCKED := --quiet --no-deps --require-hashes --requirement requirements.lock

.PHONY: demo test test-all live eval bench picture reference sessions lock clean

# None of its words stands in the project, so that a text search finds nothing.
QUESTION ?= How heavy may my suitcase be?

demo: export PLANLOOM_BACKEND = embedded
demo: $(VENV)/embedded ## Answer a question about the project in examples/ferry, over MCP, with embedded models
	$(BIN)/planloom models
	$(BIN)/python examples/ask_over_stdio.py "$(QUESTION)" examples/ferry

test: $(VENV)/dev ## Run the checks and the tests that need no model
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest --numprocesses logical --dist worksteal

test-all: test $(VENV)/outside ## Run the tests that need node, a browser, Redis or llama.cpp, too
	$(BIN)/pytest -m outside --numprocesses logical --dist loadfile

live: $(VENV)/dev ## Run the tests that need real models and a real Serena
	$(BIN)/pytest -m live

eval: $(VENV)/dev ## Ask the evaluation's questions of Planloom and the two baselines
	$(BIN)/python -m benchmarks.eval

bench: $(VENV)/dev ## Count tokens and simulated seconds of recorded runs, without a model
	$(BIN)/python -m benchmarks.speed

reference: $(VENV)/dev ## Write docs/configuration.md and upstreams.schema.json from the types
	$(BIN)/python -m benchmarks.reference

docs/view.png: $(VENV)/outside tests/server/http/test_page.py $(wildcard server/http/static/*) ## Take the pictures of the live view
	VIEW_PICTURE=$(CURDIR)/$@ $(BIN)/pytest -q -m outside tests/server/http/test_page.py -k "seen_as_it_goes_on or approves_a_call or failed"

sessions: $(VENV)/dev ## Record docs/session-*.svg, what a terminal shows in the first minutes
	RECORD_SESSIONS=1 $(BIN)/pytest -q tests/test_sessions.py

picture: $(VENV)/dev ## Run `planloom ask` on a terminal and write docs/picture.svg, a moving picture of it
	$(BIN)/python -m benchmarks.picture

lock: $(VENV)/dev ## Write requirements.lock from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
		--no-emit-index-url --no-annotate --extra embedded --extra redis --group dev \
		--output-file requirements.lock pyproject.toml

# Debian keeps venv in a package of its own; virtualenv does where it is missing.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV) && \
		$(PYTHON) -m pip install --quiet --target .virtualenv virtualenv && \
		PYTHONPATH=.virtualenv $(PYTHON) -m virtualenv --quiet $(VENV); }

$(VENV)/embedded $(VENV)/dev: $(BIN)/python requirements.lock pyproject.toml
	$(BIN)/python -m pip install $(LOCKED)
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	$(BIN)/python -m pip check
	touch $(VENV)/embedded $(VENV)/dev

$(VENV)/outside: $(VENV)/dev $(wildcard tests/outside/* tests/outside/*/package.json tests/outside/*/*.txt)
	tests/outside/set-up
	touch $@

clean:
	rm -rf $(VENV) .virtualenv .pytest_cache .mypy_cache .ruff_cache .hypothesis
