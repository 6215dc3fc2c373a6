# Every target sets up its own virtual environment in .venv, once: nothing else to type on a fresh machine.
#
#   make kuhn            the Kuhn poker experiment: table and figures under runs/      (QUICK=1: a minute's version)
#   make kuhn-compare    GEMS, eight baselines and self-play at two equal budgets      (QUICK=1: three minutes)
#   make kuhn-family     the wider family of methods beside all of these at one budget  (QUICK=1: two minutes)
#   make deceptive       the Deceptive Messages experiment                             (QUICK=1: two seeds)
#   make public-goods    the Public Goods experiment, a dilemma and its control        (QUICK=1: two seeds)
#   make connect4        Connect Four against random play and a tactician              (QUICK=1: one seed, 15 minutes)
#   make go              Go 9x9 against random play                                    (QUICK=1: one seed, 10 minutes)
#   make chess           chess against random play                                     (QUICK=1: one seed, half an hour)
#   make spread          Simple Spread of MPE                                          (QUICK=1: one seed, 5 minutes)
#   make tag             Simple Tag of MPE                                             (QUICK=1: one seed, 10 minutes)
#   make hanabi          Hanabi with two players                                       (QUICK=1: one seed, 20 minutes)
#   make oracle          the oracle's indices on the Shifting Meta bandit              (QUICK=1: one batch of runs)
#   make cce             joint play as a coarse correlated equilibrium, three games    (QUICK=1: one seed, 20 iterations)
#   make estimators      estimators of the meta-game at equal episodes                 (QUICK=1: up to three players)
#   make meta-game       OMWU, MWU, schedules and episodes on random zero-sum games     (QUICK=1: 100 updates)
#   make meta-rules      OMWU, MWU and three schedules on Kuhn poker                   (QUICK=1: 5 iterations)
#   make rollouts        Kuhn poker: exploitability against the episodes behind a value (QUICK=1: 5 iterations)
#   make adaptive        fixed and adaptive budgets on Kuhn poker                      (QUICK=1: 5 iterations)
#   make regret          regret of the meta-strategy beside its bound                  (QUICK=1: fewer steps)
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
BENCHMARKS ?= openspiel seeds growth mpe_budget startup fractions kuhn_numpy driver_overhead python_workers worlds
export QUICK FULL

.PHONY: help venv dev kuhn kuhn-compare kuhn-family deceptive public-goods connect4 go chess spread tag hanabi oracle regret cce estimators rollouts adaptive meta-game meta-rules bench bench-compare test test-slow lint format lock clean
.DEFAULT_GOAL := help

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

# -- experiments: one line each ----------------------------------------------------------------------------------

kuhn: venv
	$(PY) -m experiments.run kuhn $(ARGS)

kuhn-compare: venv
	$(PY) -m experiments.run kuhn_compare $(ARGS)

deceptive: venv
	$(PY) -m experiments.run deceptive $(ARGS)

public-goods: venv
	$(PY) -m experiments.run public_goods $(ARGS)

connect4 go chess spread tag hanabi oracle regret cce estimators rollouts adaptive: venv
	$(PY) -m experiments.run $@ $(ARGS)

kuhn-family meta-game meta-rules: venv
	$(PY) -m experiments.run $(subst -,_,$@) $(ARGS)

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

# The newest versions that resolve on the oldest supported Python; this package and installer tools are left out.
lock:
	@rm -rf $(VENV)-lock
	@.ci/venv "$(VENV)-lock" "$(or $(PYTHON),python3.11)" ".[dev]"
	@{ echo "# Exact versions behind the published numbers (Python 3.11, CPU). Install: pip install -r requirements.lock"; \
	   $(VENV)-lock/bin/python -m pip freeze --exclude-editable --exclude gems_jax | grep -E '^[A-Za-z0-9._-]+==[^ ]+$$'; \
	 } > requirements.lock
	@rm -rf $(VENV)-lock
	@echo "requirements.lock: $$(grep -c == requirements.lock) packages"

clean:
	rm -rf $(VENV) $(VENV)-lock .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks build dist
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
