# The few commands to remember. CMake, CTest, pytest and lit work underneath.
.DEFAULT_GOAL := build
SHELL := /bin/bash

BUILD := build/dev
JOBS ?= $(shell nproc)
PYTHON := .venv/bin/python
CMAKE_FLAGS := -G Ninja -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22
LIBRARY := $(BUILD)/lib/libtilery.so
ENVIRONMENT := TILERY_LIBRARY=$(CURDIR)/$(LIBRARY) PYTHONPATH=$(CURDIR)/python PATH=$(CURDIR)/.venv/bin:$(CURDIR)/$(BUILD)/bin:$$PATH

.PHONY: setup build library demo test test-cpp test-python test-wheel lint fmt wheel bench fuzz asan clean

setup: .venv/ready ## install what is needed

.venv/ready: utils/setup.sh requirements.txt
	utils/setup.sh
	touch $@

$(BUILD)/build.ninja: | setup
	cmake -S . -B $(BUILD) $(CMAKE_FLAGS) -DCMAKE_BUILD_TYPE=Release

build: $(BUILD)/build.ninja ## the library, the tools and the tests
	ninja -C $(BUILD) -j $(JOBS)

library: $(BUILD)/build.ninja
	ninja -C $(BUILD) -j $(JOBS) tilery tilery-cli tilery_launch

demo: library ## overlapped AllGather+GEMM over 4 ranks on the CPU, checked
	$(ENVIRONMENT) $(PYTHON) demo/ag_gemm.py

test: build test-cpp test-python test-wheel ## every test

test-cpp: build
	$(ENVIRONMENT) ctest --test-dir $(BUILD) --output-on-failure --no-tests=error

test-python: library
	$(ENVIRONMENT) TILERY_REQUIRE_CPU=1 $(PYTHON) -m pytest -q --strict-markers

test-wheel: wheel
	$(PYTHON) -m pytest -q test/wheel

lint: setup ## layering, sizes, error texts, format
	$(PYTHON) utils/check_layering.py
	$(PYTHON) utils/check_sizes.py
	$(PYTHON) utils/check_words.py
	$(PYTHON) utils/check_errors_tested.py

fmt:
	git ls-files '*.cpp' '*.h' '*.hpp' | xargs clang-format -i

wheel: setup ## the self-contained wheel in dist/
	utils/build_wheel.sh

bench: build ## measurements, JSON in bench/results/
	$(ENVIRONMENT) $(PYTHON) bench/run.py

fuzz: setup ## the parser under libFuzzer for 10 minutes
	utils/fuzz_frontend.sh

asan: setup ## the tests of compiled code with address and undefined-behaviour sanitizers
	JOBS=$(JOBS) utils/sanitize.sh

clean:
	rm -rf build dist
