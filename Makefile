# Two commands set everything up: `make demo` and `make test`. Both install inside this folder only.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
INSTALL := $(PIP) install --constraint constraints.txt --build-constraint constraints.txt
EMULATOR := .venv-ministack
PYTEST := $(BIN)/pytest --quiet --numprocesses 3 --dist worksteal

PYTHONS := python3 python3.11 python3.12 python3.13 python3.14 python
OTHER_PYTHONS := $(PYTHONS) $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/*/bin/python3)
IS_FIT := import sys, venv, ensurepip, sqlite3; sys.version_info < (3, 11) and sys.exit(1); print("%d.%d" % sys.version_info[:2])

# Without servers, browsers and long runs.
FAST := tests/unit tests/contract/test_*_sqlite.py tests/contract/test_reactions_embedded.py tests/replay \
  $(filter-out %/test_serving.py %/test_schema.py %/test_hooks.py %/test_cursors.py %/test_texts.py %/test_inbox_requests.py,$(wildcard tests/web/test_*.py)) \
  tests/cli/test_help.py tests/cli/test_settle.py tests/cli/test_repair.py \
  --ignore tests/unit/aws --ignore tests/unit/temporal --ignore tests/unit/bench \
  --ignore tests/unit/test_single_purpose_processes.py --ignore tests/unit/test_lambda_bridge.py \
  --ignore tests/unit/channels/ses/test_send.py --ignore tests/unit/channels/ses/test_fetch.py

CHROMIUM := $(or $(AFTERTURN_TEST_CHROMIUM),/usr/bin/chromium-headless-shell)
CHROMIUM_PACKAGES := chromium-headless-shell fonts-dejavu-core

.DEFAULT_GOAL := help
.PHONY: help demo test check check-pythons fast thorough lint format docs bench crash fuzz pins clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1 \t\2/p' Makefile | expand -t 24

demo: $(VENV)/.runtime ## Install, then process a sample of conversations
	@$(BIN)/afterturn demo

test: $(CHROMIUM) lint $(VENV)/.emulator ## Formatting, lint, types, import rules, tests
	@CI=true $(PYTEST) -m 'not thorough'

check: lint fast ## Formatting, lint, types, import rules, fast tests

fast: $(VENV)/.dev ## The fast tests: no servers, no browser
	@$(PYTEST) $(FAST)

check-pythons: $(VENV)/.dev ## The fast tests on every other Python that this machine has
	@seen=" $$($(BIN)/python -c '$(IS_FIT)') "; \
	for python in $(OTHER_PYTHONS); do \
	  version=$$($$python -c '$(IS_FIT)' 2>/dev/null) || continue; \
	  case "$$seen" in *" $$version "*) continue;; esac; \
	  seen="$$seen$$version "; \
	  echo "Python $$version" >&2; \
	  $(MAKE) --no-print-directory VENV=.venvs/$$version PYTHONS=$$python fast || exit 1; \
	done

thorough: $(CHROMIUM) $(VENV)/.emulator ## `make test` and the long tests: the whole sample, every dialogue, 1,000 kills, a million payloads
	@CI=true AFTERTURN_TEST_THOROUGH=1 AFTERTURN_TEST_KILLS=1000 $(PYTEST)
	@$(BIN)/python -m tests.fuzz

lint: $(VENV)/.dev ## Formatting, lint, types, import rules
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## Format the code and fix what ruff can fix
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

docs: $(VENV)/.dev ## Generate the reference pages from the code
	@$(BIN)/python -m tests.docs.reference

bench: $(VENV)/.dev ## Run the benchmarks, each next to a baseline of the same run
	@$(BIN)/python -m bench

crash: $(VENV)/.dev ## Kill afterturn a thousand times; check every promise after each kill
	@$(BIN)/python -m tests.crash --kills 1000

fuzz: $(VENV)/.dev ## Parse a million damaged provider payloads; each is accepted or refused cleanly
	@$(BIN)/python -m tests.fuzz

pins: ## Renew constraints.txt from the newest releases
	@rm -rf .pins && $(VENV)/bin/python -m venv .pins && .pins/bin/python -m pip install --quiet --upgrade pip
	@.pins/bin/python -m pip install --quiet --editable '.[aws,llm]' --group dev hatchling editables
	@sed '/^[^#]/d' constraints.txt > .pins/constraints.txt
	@.pins/bin/python -m pip freeze --all --exclude-editable --exclude setuptools >> .pins/constraints.txt
	@mv .pins/constraints.txt constraints.txt
	@.pins/bin/python -m afterturn.local.ministack .pins/emulator
	@sed '/^[^#]/d' constraints-emulator.txt > .pins/constraints.txt
	@.pins/emulator/bin/python -m pip --disable-pip-version-check freeze >> .pins/constraints.txt
	@mv .pins/constraints.txt constraints-emulator.txt && rm -rf .pins

clean: ## Remove the virtual environment and every cache
	@rm -rf $(VENV) .venvs $(EMULATOR) .pins .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(CHROMIUM):
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo 'Installing Chromium with apt, for the tests of the pages …' >&2; \
	  apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(CHROMIUM_PACKAGES) >/dev/null; \
	fi; \
	if [ ! -x $@ ]; then \
	  echo 'The tests of the pages need Chromium. On Debian run: sudo apt-get install -y $(CHROMIUM_PACKAGES)' >&2; \
	  echo 'Elsewhere name it: make test AFTERTURN_TEST_CHROMIUM=/path/to/chromium' >&2; exit 1; \
	fi

$(VENV)/.python:
	@mkdir -p $(dir $(VENV))
	@for python in $(PYTHONS); do \
	  if $$python -c '$(IS_FIT)' >/dev/null 2>&1; then \
	    $$python -m venv --clear $(VENV) && touch $@ && exit 0; exit 1; \
	  fi; \
	done; \
	echo 'afterturn needs Python 3.11 or newer with its venv module (Debian, Ubuntu: apt install python3-venv);' \
	  'none was found on the PATH.' >&2; exit 1

$(VENV)/.pip: $(VENV)/.python constraints.txt
	@echo 'Installing into $(VENV) (the first time takes a minute) …' >&2
	@$(PIP) install --constraint constraints.txt --upgrade pip && touch $@

$(VENV)/.runtime: $(VENV)/.pip pyproject.toml
	@$(INSTALL) --editable . && touch $@

$(VENV)/.dev: $(VENV)/.runtime
	@$(INSTALL) --group dev && touch $@

$(VENV)/.emulator: $(VENV)/.dev constraints-emulator.txt
	@rm -rf $(EMULATOR) && $(BIN)/python -m afterturn.local.ministack $(EMULATOR) constraints-emulator.txt && touch $@
