# SPDX-License-Identifier: Apache-2.0
# The front door. Everything is built by meson; these are its usual ways. Needs Debian 12 or its like for `make deps`.

# What the build, the tests and the demo need from the distribution: this list is the only one.
PACKAGES := gcc g++ libc6-dev make meson ninja-build pkg-config python3 libcmocka-dev libhwloc-dev libjansson-dev \
  libibverbs-dev libyaml-dev libmicrohttpd-dev libgnutls28-dev libcurl4-gnutls-dev libprotobuf-c-dev \
  protobuf-c-compiler libsqlite3-dev libpq-dev libncurses-dev libpmix-dev
CHECK_PACKAGES := clang clang-format-14 libclang-rt-14-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user \
  libcmocka-dev:arm64 libjansson-dev:arm64 iproute2 nftables python3-numpy python3-pip python3-setuptools \
  python3-wheel python3-venv ibverbs-utils perftest tshark iperf3 ethtool ucx-utils tcpdump tmux procps \
  prometheus python3-prometheus-client openssl chromium libnss3-tools cmake postgresql debhelper dh-python chrpath \
  openmpi-bin libopenmpi-dev mpich libmpich-dev python3-torch slurmctld slurmd slurm-client munge zsh fish
DEB_PACKAGES := debhelper dh-python chrpath python3-setuptools python3-wheel
BENCH_PACKAGES := openmpi-bin libopenmpi-dev mpich libmpich-dev python3-torch

BUILD := build
TUTTI := $(BUILD)/bin/tutti
# Kernels for A100, H100 and H200; others' drivers make their own of the PTX. SETUP= compiles them for all,
# which takes long.
SETUP ?= -Dgpu_archs=80,90
SWEEP := -np 2 -b 8 -e 16M -f 16 -n 10 -w 2

# Where `make install` puts what `make build` has made; DESTDIR stands before it, as packagers are used to.
PREFIX ?= /usr/local

.PHONY: build install put deb diagnose-wheel deps check-deps bench-deps deb-deps demo check bench bench-diagnosis \
  bench-lab docs clean openmpi torch

build: deps
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) --prefix=$(CURDIR)/$(BUILD) --libdir=lib \
	  --buildtype=release $(SETUP)
	@rm -rf $(BUILD)/include/tutti $(BUILD)/include/nccl.h # installed ones would be found before the sources'
	@ninja -C $(BUILD)
	@meson install -C $(BUILD) --no-rebuild --quiet

install: build
	@$(MAKE) --no-print-directory put

# Nothing that is installed knows its place, so files made for one prefix work under any other.
put:
	@stage=$$(mktemp -d) && trap 'rm -rf "$$stage"' EXIT && \
	  meson install -C "$(BUILD)" --no-rebuild --quiet --destdir "$$stage" && mkdir -p "$(DESTDIR)$(PREFIX)" && \
	  cp -R "$$stage$$(meson introspect --buildoptions "$(BUILD)" | \
	  python3 -c 'import json, sys; print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')/." \
	  "$(DESTDIR)$(PREFIX)"

# The analyser of hangs alone, as a wheel that any Python takes: see bindings/diagnose/README.md.
DIAGNOSE := build-diagnose
diagnose-wheel:
	@tests/need.sh $(PACKAGES) python3-pip python3-setuptools python3-wheel
	@test -f $(DIAGNOSE)/build.ninja || meson setup $(DIAGNOSE) --buildtype=release -Dtests=disabled -Dcuda=disabled \
	  -Dagent=disabled
	@ninja -C $(DIAGNOSE) cli/tutti-diagnose
	@rm -rf $(DIAGNOSE)/source $(DIAGNOSE)/*.whl && cp -r bindings/diagnose $(DIAGNOSE)/source
	@TUTTI_DIAGNOSE=$(CURDIR)/$(DIAGNOSE)/cli/tutti-diagnose /usr/bin/python3 -m pip -q wheel --no-build-isolation \
	  --no-deps --no-index -w $(DIAGNOSE) $(DIAGNOSE)/source
	@ls -1 $(DIAGNOSE)/*.whl

# Debian packages, in a folder of their own: a copy of the sources is built there. See docs/packages.md.
DEB := build-deb
deb: deb-deps
	@rm -rf "$(DEB)/tutti" && mkdir -p "$(DEB)/tutti"
	@tar -c --exclude='./build*' --exclude=./.git --exclude=__pycache__ . | tar -x -C "$(DEB)/tutti"
	@cd "$(DEB)/tutti" && SETUP="$(SETUP)" dpkg-buildpackage -b -us -uc $(DEB_FLAGS)
	@ls -1 "$(DEB)"/*.deb

deb-deps:
	@tests/need.sh $(PACKAGES) $(DEB_PACKAGES)

deps:
	@tests/need.sh $(PACKAGES)

check-deps:
	@tests/need.sh $(PACKAGES) $(CHECK_PACKAGES)

bench-deps:
	@tests/need.sh $(PACKAGES) $(BENCH_PACKAGES)

demo: build
	@echo "== Training on 4 ranks"
	@examples/train/data.sh $(BUILD)/data/digits.csv
	@$(TUTTI) run -n 4 -- $(BUILD)/bin/tutti-train --data $(BUILD)/data/digits.csv
	@echo "== Allreduce of 2 processes through shared memory"
	@TUTTI_TRANSPORT=shm $(TUTTI) perf allreduce $(SWEEP)
	@echo "== The same through TCP"
	@TUTTI_TRANSPORT=tcp $(TUTTI) perf allreduce $(SWEEP)
	@torch="$(firstword $(wildcard build-torch/bin/python) /usr/bin/python3)"; ! "$$torch" -c 'import torch' 2>/dev/null || \
	  { echo "== PyTorch's DDP over tutti on 2 ranks" && PYTHONPATH=bindings/python LD_LIBRARY_PATH=$(BUILD)/lib \
	  $(TUTTI) run -n 2 -- "$$torch" examples/ddp/train.py; }

# Kernels for one kind of GPU, little optimized: compiling them takes longest, and the tests run the same ones as C++.
check: SETUP = -Dgpu_archs=90 -Dgpu_ptx=false -Dgpu_optimized=false
check: check-deps build $(if $(CHECK_TORCH),torch)
	@$(MAKE) --no-print-directory openmpi || echo "No Open MPI 5 to be had: its tests are skipped"
	@tests/run_all.sh

# Open MPI 5 for its tests: Debian 12 has version 4.
openmpi:
	@test -d build-openmpi || { echo "Fetching Open MPI 5"; /usr/bin/python3 -m venv build-openmpi; }
	@test -x build-openmpi/bin/mpirun || build-openmpi/bin/python -m pip install -q openmpi==5.0.11

# PyTorch 2 for its tests: `make check CHECK_TORCH=1`. Without it they take Debian's python3-torch.
torch:
	@test -d build-torch || { echo "Fetching PyTorch"; /usr/bin/python3 -m venv build-torch; }
	@build-torch/bin/python -m pip install -q torch==2.11.0 numpy expecttest mypy

bench: bench-deps build
	@python3 benchmarks/compare.py $(BENCH)

bench-diagnosis: build
	@python3 benchmarks/diagnosis.py $(BUILD)/cli/tutti $(BUILD)/tests/diagnosis/faulty $(or $(RUNS),--runs 60)
	@python3 benchmarks/diagnosis.py $(BUILD)/cli/tutti $(BUILD)/tests/diagnosis/faulty_gpu \
	  --gpus $(CURDIR)/$(BUILD)/emulation/cuda $(or $(GPU_RUNS),--runs 36)
	@python3 benchmarks/diagnosis_parallel.py $(BUILD)/cli/tutti $(BUILD)/tests/diagnosis/parallel \
	  $(BUILD)/emulation/lab/tutti-lab $(or $(PARALLEL_RUNS),--runs 56)

# Lanes in the lab of network namespaces: docs/bench-lab.md. As root. BENCH="--only port --turns 1" measures less.
bench-lab: build
	@tests/need.sh $(PACKAGES) iproute2 perftest valgrind
	@python3 benchmarks/lab $(BUILD) --out $(BUILD)/bench-lab $(BENCH)

# The pages that are made from the program: parameters and manual.
docs: build
	@$(TUTTI) env --markdown >docs/parameters.md
	@python3 docs/man/generate.py $(TUTTI)

clean:
	@rm -rf $(BUILD) build-*
