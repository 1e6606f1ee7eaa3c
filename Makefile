# The two commands of the README are `make demo` and `make test`; everything they need they install.
PYTHON ?= python3
VENV := .venv
VLLM_VENV := .venv-vllm
BIN := $(VENV)/bin
QUICK := not vllm
PYTEST := $(BIN)/python -m pytest --durations=20

.PHONY: demo test test-all check lint docs bench clean

demo: $(VENV)/.ready vllm ## Replay the incident on real vLLM
	$(BIN)/python tests/live/demo.py --venv $(VLLM_VENV)

test: $(VENV)/.ready vllm ## Lint, types, layers, and all tests of this tier (about ten live vLLM runs)
	$(MAKE) --no-print-directory lint
	$(PYTEST) -m "not matrix" --cov --cov-report=term

test-all: $(VENV)/.ready vllm ## The whole live matrix too (TP4)
	$(MAKE) --no-print-directory lint
	$(PYTEST) --cov --cov-report=term

check: $(VENV)/.ready ## The quick half: lint, types, layers, everything without vLLM
	$(MAKE) --no-print-directory lint
	$(PYTEST) -m "$(QUICK)"

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.ready ## Make the generated pages anew
	$(BIN)/python docs/generate_reference.py

bench: $(VENV)/.ready ## The benchmark beside the usual tools (tests/benchmarks)
	$(BIN)/python tests/benchmarks/run.py

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

.PHONY: vllm
vllm: ## Real vLLM for the CPU, in its own virtual environment
	$(PYTHON) tests/live/install_vllm.py $(VLLM_VENV)

clean:
	rm -rf $(VENV) $(VLLM_VENV) .demo .coverage .pytest_cache .mypy_cache .ruff_cache
