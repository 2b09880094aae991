# Short commands for the usual tasks.  CMake does the work; `cmake --preset release` and the other presets can be used directly.
#
#   make            build the library, the command and the examples into build/
#   make run        build, then plan, draw, run and check one reshard, and compare its speed with memcpy
#   make test       build, then run the tests (a few minutes); make check is the same
#   make soak       build, then run the random tests of every engine with new seeds, for MINUTES=30 or until one fails
#   make python     build the Python package into build/python: PYTHONPATH=build/python python3
#   make bench      build, then run the benchmarks, also of MPI, ScaLAPACK and PyTorch; build/bench.html plots the results
#   make bigtest    run sanitizers, both compilers, long random tests, fuzzers and mutants (hours)
#   make install    install the build; PREFIX=/usr/local, DESTDIR=
#   make uninstall  remove the files of the last make install; use the same DESTDIR
#   make clean      remove the build folders
#   make distclean  make clean, and remove the files that Python, editors and packaging tools leave in the tree
#   make setup      install the packages that these targets need, except for bench and bigtest
#   make help       print this list
#
# `make test` tries the same random cases every time; RESHARD_SEED=NUMBER tries others.
# Each target first installs missing Debian packages (tools/setup.sh); NO_SETUP=1 installs nothing.

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# Three tests at a time on two cores, since many wait for timeouts and for other processes.
TEST_JOBS ?= $(shell echo $$(($(JOBS) + ($(JOBS) + 1) / 2)))
BUILD := build
SETUP := $(if $(NO_SETUP),@:,@sh tools/setup.sh)
TESTS := -DRESHARD_TESTS=OFF
STRICT := $(if $(WERROR),-DRESHARD_WERROR=ON)
# Expanded on use, because `test` sets its own TESTS.  The value is always passed, because CMake caches the last one.
# CMake's make does not use the job server of this make; it gets -j from JOBS.
CONFIGURE = @mkdir -p $(BUILD) && \
	{ cmake --preset release $(CMAKE_ARGS) $(TESTS) $(STRICT) > $(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; exit 1; }; } && \
	env -u MAKEFLAGS -u MAKELEVEL cmake --build $(BUILD) -j$(JOBS)

# Runs a benchmark and collects its rows for the page of plots.
KEEP := @python3 bench/rows.py $(BUILD)/bench.jsonl

.NOTPARALLEL:
.PHONY: all help setup run test check soak python bench bigtest install uninstall clean distclean

all:
	$(SETUP) build
	$(CONFIGURE)

help:
	@sed -n 's/^#   make/make/p' Makefile

setup:
	@sh tools/setup.sh build test python

run: all
	@$(BUILD)/examples/00_main

test soak: TESTS := -DRESHARD_TESTS=ON
test soak: STRICT := -DRESHARD_WERROR=ON
test:
	$(SETUP) build test python
	$(CONFIGURE)
	@ctest --preset release -j$(TEST_JOBS) --timeout 1500

check: test

MINUTES ?= 30
soak:
	$(SETUP) build test
	$(CONFIGURE)
	@python3 tools/soak.py $(BUILD) $(MINUTES)

python:
	$(SETUP) build python
	$(CONFIGURE) --target python reshard-command

bench:
	$(SETUP) build bench
	$(CONFIGURE)
	@rm -f $(BUILD)/bench.jsonl
	$(KEEP) sh bench/table.sh $(BUILD)/reshard
	$(KEEP) sh bench/peers.sh $(BUILD)/bench/peers
	$(KEEP) bash bench/simulate.sh $(BUILD)/reshard
	$(KEEP) python3 bench/checkpoint.py $(BUILD)/reshard
	$(KEEP) /usr/bin/python3 bench/nn/block.py $(BUILD)/bench/nn/bench_block
	@[ ! -d $(BUILD)/python ] || PYTHONPATH=$(BUILD)/python /usr/bin/python3 bench/python_overhead.py
	@for program in $(BUILD)/bench/bench_* $(BUILD)/bench/nn/*; do [ ! -x $$program ] || python3 bench/rows.py $(BUILD)/bench.jsonl $$program || exit 1; done
	@python3 bench/plot.py $(BUILD)/bench.jsonl $(BUILD)/bench.html

bigtest:
	$(SETUP) build test bigtest
	@bash tools/bigtest.sh

# With a umask of 077 other users could not enter the folders of an installation.
install: all
	@case "$(PREFIX)" in /*) prefix="$(PREFIX)" ;; *) prefix="$(CURDIR)/$(PREFIX)" ;; esac; \
	umask 022; DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$$prefix"

uninstall:
	@sh tools/uninstall.sh $(BUILD)/install_manifest.txt "$(DESTDIR)"

clean:
	@rm -rf build build-*

distclean: clean
	@find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
	@rm -rf .cache compile_commands.json debian/.debhelper debian/tmp debian/files
