# Every target creates its own virtual environment in .venv on first use.
#
#   make kuhn                 a first look: table and figures in runs/                         (QUICK=1: a short version)
#   make kuhn-compare         GEMS, eight baselines, self-play at two equal budgets; d_z 2, 4, 8
#   make kuhn-family          the wider family of methods at one equal budget
#   make deceptive            Deceptive Messages: GEMS and the PSRO family
#   make public-goods         Public Goods, 5 players: a dilemma and its control
#   make tag, spread          particle worlds of MPE, GEMS against PSRO at equal steps
#   make connect4, hanabi     GEMS and PSRO, 200 iterations, 4 seeds              (FULL=1 make connect4: required scores)
#   make go, chess            GEMS against random play, 200 and 1,000 iterations
#   make oracle               the oracle's indices on the Shifting Meta bandit
#   make ablate-kuhn, ablate-deceptive, ablate-public-goods                       the paper's ablations
#   make ablate-reuse         ablation of reused returns, control variates and responses on stored episodes
#   make two-thousand         2,002 anchors of Kuhn poker in 1,000 iterations
#   make scaling              seconds and bytes against iterations, all methods
#   make paper                all of the above except kuhn-family and ablate-reuse, in sequence
#   make report               runs/report/index.html: all results, and the ledger of the paper's claims
#   make verify-results       repeat a cheap part and compare it with docs/results
#   make leaderboard          every method that learns from episodes at equal steps: docs/leaderboard.md
#   make defaults             GEMS with default settings: eight games and ten random matrix games
#   make regret, meta-game, meta-rules, estimators, control-variates, rollouts, adaptive, cce, opponents   studies of single parts
#
# Experiments have the paper's size; QUICK=1 takes minutes on two cores: QUICK=1 make paper. docs/experiments.md lists
# their costs.
#
#   make bench           measure speed ratios and append them to runs/bench/           (an hour on an idle machine)
#   make bench-compare   print what changed since the previous run of the benchmarks
#   make trust           campaigns of kills, damaged and hostile files, fuzzed command lines   (ARGS=--quick: a part)
#   make soak            1e5 iterations of a matrix game and half an hour of Kuhn poker, watched from outside
#   make shell           a shell in which `gems` and `python` are those of .venv
#   make docs            the documentation site, build/site/index.html;  make docs-serve shows it
#   make tutorials       execute the tutorials and write their pages          (ARGS=kuhn: one of them)
#   make test            the test suite without the slow tests                         (ARGS="-k omwu" goes to pytest)
#   make test-fast       the tests that take moments, in a minute and a half
#   make test-slow       the slow tests, and how long each took
#   make coverage        the lines that the default tests execute, with all their processes: docs/coverage.json
#   make smoke           build the packages, install the wheel alone and use its commands elsewhere
#   make test-matrix     the same and some tests on every Python found, with the oldest and the newest JAX
#   make dist            sdist and wheel in dist/;  make sbom  the bill of materials of requirements.lock in build/
#   make check-version   one version in the package, CITATION.cff and CHANGELOG.md          (TAG=v0.2.0: of this tag)
#   make lint            ruff and mypy;  make format fixes what ruff can fix;  make lint-docker  hadolint
#   make lock            rewrite requirements.lock from a clean install
#   make clean           remove .venv and caches; runs/ stays
#
# PYTHON=/path/to/python chooses the interpreter; the default is the newest working one of 3.13, 3.12, 3.11.

SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PYTHON ?=
ARGS ?=
QUICK ?=
FULL ?=
TAG ?=
# number of test processes; they share compiled programs through the cache
JOBS ?= 2
BENCHMARKS ?= openspiel seeds growth mpe_budget startup fractions kuhn_numpy driver_overhead python_workers worlds reuse program
# experiments of the paper, cheapest first
PAPER := kuhn deceptive public-goods oracle regret two-thousand kuhn-compare scaling ablate-deceptive \
	ablate-public-goods ablate-kuhn spread tag connect4 go hanabi chess
EXPERIMENTS := $(PAPER) kuhn-family ablate-reuse cce estimators control-variates rollouts adaptive meta-game \
	meta-rules defaults opponents connect4-equal spread-equal tag-equal
export QUICK FULL

.PHONY: help venv dev shell paper report leaderboard verify-results bench bench-compare trust docs docs-serve tutorials test test-fast test-slow coverage smoke test-matrix dist sbom check-version lint lint-docker format lock clean soak $(EXPERIMENTS)
.DEFAULT_GOAL := help

help:
	@sed -n '3,/^$$/s/^# \{0,1\}//p' Makefile

# -- experiments: one line each ----------------------------------------------------------------------------------

$(EXPERIMENTS): venv
	$(PY) -m experiments.run $(subst -,_,$@) $(ARGS)

# In sequence. A failed experiment does not stop the others; failures are reported at the end.
paper: venv
	@failed=(); for name in $(PAPER); do \
	  echo "== $$name"; $(PY) -m experiments.run $${name//-/_} $(ARGS) || failed+=($$name); \
	done; \
	if [ $${#failed[@]} -gt 0 ]; then echo "unfinished, or with a failed check: $${failed[*]}"; exit 1; fi

report: venv
	@$(PY) -m experiments.report $(ARGS)

# Stored cells are not run again. The page is written from all stored cells, even if the time limit was reached.
leaderboard: venv
	@$(PY) -m experiments.leaderboard run $(ARGS); code=$$?; $(PY) -m experiments.leaderboard write && exit $$code

verify-results: venv
	@$(PY) -m experiments.verify $(ARGS)

# -- benchmarks --------------------------------------------------------------------------------------------------

bench: $(VENV)/.stamp-bench
	@for name in $(BENCHMARKS); do echo "$$name"; $(PY) -m benchmarks.$$name || exit 1; done

bench-compare: venv
	@$(PY) -m benchmarks.compare $(ARGS)

# Continues an interrupted campaign; --publish writes docs/trust.json and docs/trust.md.
trust: venv
	@$(PY) -m benchmarks.trust $(ARGS)

# --publish writes docs/soak.json and docs/figures/soak_*.png.
soak: venv
	@$(PY) -m benchmarks.soak $(ARGS)

# -- documentation -----------------------------------------------------------------------------------------------

# Strict: a warning, a broken link or a missing reference is an error. Nothing is fetched from a network.
docs: $(VENV)/.stamp-docs
	@$(PY) -m website.build $(ARGS)

docs-serve: $(VENV)/.stamp-docs
	@$(PY) -m website.build --serve $(ARGS)

tutorials: venv
	@$(PY) -m website.notebooks $(ARGS)

# -- checks ------------------------------------------------------------------------------------------------------

test: dev
	$(PY) -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-fast: dev
	$(PY) -m pytest -n $(JOBS) --quick -q $(ARGS)

test-slow: dev
	$(PY) -m pytest -m slow --durations=0 --durations-min=5 $(ARGS)

# Runs the default tests once, under coverage; half as slow again as make test.
coverage: $(VENV)/.stamp-coverage
	@$(PY) -m benchmarks.trust.line_coverage $(ARGS)

smoke: dev
	@$(PY) .ci/smoke --reuse $(ARGS)

# Environments stay in .matrix/; --publish writes docs/compatibility.json.
test-matrix: dev
	@$(PY) .ci/matrix $(ARGS)

dist: dev
	@rm -rf dist
	$(PY) -m build --no-isolation --outdir dist .

sbom: $(VENV)/.stamp-release
	@mkdir -p build
	$(BIN)/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-file build/sbom.cdx.json

check-version: dev
	@$(PY) .ci/version $(TAG)

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lint-docker: $(VENV)/.stamp-release
	$(BIN)/hadolint Dockerfile

format: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# -- environment -------------------------------------------------------------------------------------------------
# A stamp newer than pyproject.toml means that the installation is up to date.

# An interactive bash with the user's own settings.
shell: venv
	@echo "gems --help lists the commands; exit leaves this shell"
	@exec bash --rcfile <(cat ~/.bashrc 2>/dev/null; echo 'source "$(abspath $(BIN))/activate"') -i

venv: $(VENV)/.stamp-core
dev: $(VENV)/.stamp-dev

$(VENV)/.stamp-core: pyproject.toml
	@.ci/venv "$(VENV)" "$(PYTHON)" .
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml
	@.ci/venv "$(VENV)" "$(PYTHON)" ".[dev]"
	@touch $(VENV)/.stamp-core $@

$(VENV)/.stamp-docs: pyproject.toml
	@.ci/venv "$(VENV)" "$(PYTHON)" ".[docs]"
	@touch $(VENV)/.stamp-core $@

$(VENV)/.stamp-bench: pyproject.toml
	@.ci/venv "$(VENV)" "$(PYTHON)" ".[dev,compare]"
	@touch $(VENV)/.stamp-core $(VENV)/.stamp-dev $@

$(VENV)/.stamp-coverage: pyproject.toml
	@.ci/venv "$(VENV)" "$(PYTHON)" ".[dev,coverage]"
	@touch $(VENV)/.stamp-core $(VENV)/.stamp-dev $@

$(VENV)/.stamp-release: pyproject.toml
	@.ci/venv "$(VENV)" "$(PYTHON)" ".[dev,release]"
	@touch $(VENV)/.stamp-core $(VENV)/.stamp-dev $@

# The newest versions that resolve on the oldest supported Python, without this package and installer tools. Packages
# that were not installed from an index as name==version cannot be locked: they are reported, and the old file stays.
lock:
	@rm -rf $(VENV)-lock
	@.ci/venv "$(VENV)-lock" "$(or $(PYTHON),python3.11)" ".[dev]"
	@{ uv pip freeze --python $(VENV)-lock/bin/python --exclude-editable 2>/dev/null \
	   || $(VENV)-lock/bin/python -m pip freeze --exclude-editable; } | grep -v '^gems[-_]jax' > $(VENV)-lock/freeze.txt
	@if grep -vE '^[A-Za-z0-9._-]+==[^ ]+$$' $(VENV)-lock/freeze.txt; then echo "cannot lock the packages above: expected name==version"; exit 1; fi
	@{ echo "# Exact versions behind the published numbers (Python 3.11, CPU). Install: pip install -r requirements.lock"; \
	   cat $(VENV)-lock/freeze.txt; } > requirements.lock
	@rm -rf $(VENV)-lock
	@echo "requirements.lock: $$(grep -c == requirements.lock) packages"

clean:
	rm -rf $(VENV) $(VENV)-lock .matrix .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks build dist
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
