# Every target sets up its own virtual environment in .venv, once: nothing else to type on a fresh machine.
#
#   make kuhn                 the quick look: table and figures under runs/                    (QUICK=1: a minute's version)
#   make kuhn-compare         GEMS, eight baselines, self-play at two equal budgets; d_z 2, 4, 8
#   make kuhn-family          the wider family of methods beside all of these at one budget
#   make deceptive            Deceptive Messages: GEMS and the PSRO family
#   make public-goods         Public Goods, 5 players: a dilemma and its control
#   make tag, spread          particle worlds of MPE, GEMS against PSRO at equal steps
#   make connect4, hanabi     GEMS and PSRO, 200 iterations, 4 seeds                            (FULL=1 make connect4: the bars)
#   make go, chess            GEMS against random play, 200 and 1,000 iterations
#   make oracle               the oracle's indices on the Shifting Meta bandit
#   make ablate-kuhn, ablate-deceptive, ablate-public-goods                                     the paper's ablations
#   make ablate-reuse         reused returns, control variates and responses on stored episodes, one by one
#   make two-thousand         2,002 anchors of Kuhn poker in 1,000 iterations
#   make scaling              seconds and bytes against iterations, all methods
#   make paper                all of the above but kuhn-family, one after the other
#   make report               runs/report/index.html: all that ran, and the ledger of the paper's claims
#   make verify-results       run a cheap part again and hold it against docs/results.md
#   make leaderboard          every method that learns from episodes at equal steps: docs/leaderboard.md
#   make regret, meta-game, meta-rules, estimators, control-variates, rollouts, adaptive, cce   studies of single parts
#
# Each is the paper's size; QUICK=1 is one for two cores and minutes: QUICK=1 make paper. The README says what they cost.
#
#   make bench           ratios measured side by side, appended to runs/bench/         (an hour on a quiet machine)
#   make bench-compare   what has changed since the benchmarks ran before
#   make test            the test suite without the slow set                           (ARGS="-k omwu" goes to pytest)
#   make test-slow       the slow set
#   make lint            ruff and mypy;  make format mends what ruff can mend
#   make lock            write requirements.lock afresh from a clean install
#   make clean           remove .venv and caches; runs/ stays
#
# PYTHON=/path/to/python chooses the interpreter; otherwise the newest of 3.13, 3.12, 3.11 that works is taken.

SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PYTHON ?=
ARGS ?=
QUICK ?=
FULL ?=
# test processes; each compiles for itself, and shares what it compiled through the cache
JOBS ?= 2
BENCHMARKS ?= openspiel seeds growth mpe_budget startup fractions kuhn_numpy driver_overhead python_workers worlds reuse
# what the paper shows, in the order in which it costs
PAPER := kuhn deceptive public-goods oracle regret two-thousand kuhn-compare scaling ablate-deceptive \
	ablate-public-goods ablate-kuhn spread tag connect4 go hanabi chess
EXPERIMENTS := $(PAPER) kuhn-family ablate-reuse cce estimators control-variates rollouts adaptive meta-game meta-rules
export QUICK FULL

.PHONY: help venv dev paper report leaderboard verify-results bench bench-compare test test-slow lint format lock clean $(EXPERIMENTS)
.DEFAULT_GOAL := help

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

# -- experiments: one line each ----------------------------------------------------------------------------------

$(EXPERIMENTS): venv
	$(PY) -m experiments.run $(subst -,_,$@) $(ARGS)

# One after the other, whatever the others come to: a check that fails is told at the end.
paper: venv
	@failed=(); for name in $(PAPER); do \
	  echo "== $$name"; $(PY) -m experiments.run $${name//-/_} $(ARGS) || failed+=($$name); \
	done; \
	if [ $${#failed[@]} -gt 0 ]; then echo "did not finish, or a check failed: $${failed[*]}"; exit 1; fi

report: venv
	@$(PY) -m experiments.report $(ARGS)

# Cells that are stored already are not run again; the page has what there is, also where time was up.
leaderboard: venv
	@$(PY) -m experiments.leaderboard run $(ARGS); code=$$?; $(PY) -m experiments.leaderboard write && exit $$code

verify-results: venv
	@$(PY) -m experiments.verify $(ARGS)

# -- benchmarks --------------------------------------------------------------------------------------------------

bench: $(VENV)/.stamp-bench
	@for name in $(BENCHMARKS); do echo "$$name"; $(PY) -m benchmarks.$$name || exit 1; done

bench-compare: venv
	@$(PY) -m benchmarks.compare $(ARGS)

# -- checks ------------------------------------------------------------------------------------------------------

test: dev
	$(PY) -m pytest -n $(JOBS) --dist loadfile $(ARGS)

test-slow: dev
	$(PY) -m pytest -m slow $(ARGS)

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# -- environment -------------------------------------------------------------------------------------------------
# A stamp is newer than pyproject.toml when the installation is up to date, so a second run starts at once.

venv: $(VENV)/.stamp-core
dev: $(VENV)/.stamp-dev

$(VENV)/.stamp-core: pyproject.toml
	@.ci/venv "$(VENV)" "$(PYTHON)" .
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml
	@.ci/venv "$(VENV)" "$(PYTHON)" ".[dev]"
	@touch $(VENV)/.stamp-core $@

$(VENV)/.stamp-bench: pyproject.toml
	@.ci/venv "$(VENV)" "$(PYTHON)" ".[dev,compare]"
	@touch $(VENV)/.stamp-core $(VENV)/.stamp-dev $@

# The newest versions that resolve on the oldest supported Python; this package and installer tools are left out. What
# was not installed from an index as name==version cannot be locked: it is reported, and the old file stays.
lock:
	@rm -rf $(VENV)-lock
	@.ci/venv "$(VENV)-lock" "$(or $(PYTHON),python3.11)" ".[dev]"
	@{ uv pip freeze --python $(VENV)-lock/bin/python --exclude-editable 2>/dev/null \
	   || $(VENV)-lock/bin/python -m pip freeze --exclude-editable; } | grep -v '^gems[-_]jax' > $(VENV)-lock/freeze.txt
	@if grep -vE '^[A-Za-z0-9._-]+==[^ ]+$$' $(VENV)-lock/freeze.txt; then echo "cannot be locked: the above"; exit 1; fi
	@{ echo "# Exact versions behind the published numbers (Python 3.11, CPU). Install: pip install -r requirements.lock"; \
	   cat $(VENV)-lock/freeze.txt; } > requirements.lock
	@rm -rf $(VENV)-lock
	@echo "requirements.lock: $$(grep -c == requirements.lock) packages"

clean:
	rm -rf $(VENV) $(VENV)-lock .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks build dist
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
