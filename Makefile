# Builds, demonstrates and tests cwndlab. `make help` lists the targets. GNU make (gmake on FreeBSD).
#
# Everything Python lives in .venv inside the repository, everything Rust in target/. Stamps in .stamps/ remember what
# is done, so a second call does only what changed.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := .stamps

# One profile for all tests, Rust and Python: optimised, overflow checks and debug assertions on (Cargo.toml).
PROFILE := ci

# What .cargo/config.toml tells cargo: maturin, given the same, lets cargo reuse what the tests built.
export PYO3_CONFIG_FILE := $(CURDIR)/crates/python/pyo3-config.txt
export PYO3_BUILD_EXTENSION_MODULE := 1

# What proptest draws is the same in every run of the tests; soak-draws draws anew, and more.
export PROPTEST_RNG_SEED ?= 1

export CARGO_TERM_COLOR ?= auto
export PIP_DISABLE_PIP_VERSION_CHECK := 1

RUST_SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name '*.rs' -o -name Cargo.toml)

# Debian packages that tests call or compile with, as tool:package or file:package. Everything else needs none of them.
TEST_TOOLS := tshark:tshark tcpdump:tcpdump tcptrace:tcptrace flent:flent ip:iproute2 iperf3:iperf3 iperf:iperf nft:nftables sshd:openssh-server ethtool:ethtool sudo:sudo doas:doas ping:iputils-ping node:nodejs setpriv:util-linux chromium:chromium mkfs.ext4:e2fsprogs clang:clang /usr/include/ngtcp2/ngtcp2.h:libngtcp2-dev
SAY = @printf '\033[1m==> %s\033[0m\n'

.DEFAULT_GOAL := help
.PHONY: help setup demo agent kernel quick soak soak-scenarios soak-draws soak-fuzz soak-damage soak-load soak-kernel soak-explain soak-freebsd soak-mutants test test-portable test-rust test-wasm test-aarch64 test-python test-live page web golden contract lint rustfmt clippy ruff imports mypy portable docs publish-docs docs-check examples pictures wheels fidelity \
	bench instructions lock lock-docs lock-wheels lock-neighbours lock-notebooks neighbours notebooks clean engine toolchain test-tools

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMPS)/native-release ## a virtual environment in .venv with cwndlab in it, optimised
	$(SAY) 'Ready. Try: $(BIN)/cwndlab --help'

demo: setup ## build, then run the test of the CUBIC patch and a column of TEACUP: tables and reports in a minute on two cores once it is built
	$(SAY) 'Running: cwndlab run cubic-patch (FreeBSD wiki, March 2025: five TCPs, four of the ten runs of 300 s at 1 Gbps and 41 ms)'
	@$(BIN)/cwndlab run cubic-patch --set repeat=4
	$(SAY) 'Running: a column of teacup-140502A (CAIA technical report 140502A: six TCPs at 10 Mbps, 20 ms, 90 packets)'
	@$(BIN)/cwndlab run teacup-140502A --set network.dumbbell.bottleneck.shaper.rate=10mbit \
		--set network.dumbbell.bottleneck.delay=20ms --set network.dumbbell.bottleneck.queue.limit=90p

# The agent for other machines: one file that needs nothing of theirs. Rust brings musl's C library for these targets, and a
# linker that knows both processors.
AGENT_TARGETS := x86_64-unknown-linux-musl aarch64-unknown-linux-musl
AGENT_LINKERS := CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=rust-lld

agent: toolchain ## cwndlab-agent as a static program, for x86-64 and for aarch64: target/*/release/cwndlab-agent
	@for target in $(AGENT_TARGETS); do \
	    if ! $(call has-target,$$target); then echo "left out: Rust's target $$target is not here" >&2; continue; fi; \
	    ( set -x; env $(AGENT_LINKERS) cargo build --locked --release --target $$target -p cwndlab-agent ) || exit 1; \
	done

# What `make test` runs, each part whether or not the one before failed. Beside them run the tests of this machine's kernel,
# which wait most of the time: the others take the processor time that is left.
TEST_PARTS := rustfmt clippy ruff imports mypy test-rust test-wasm test-python portable docs-check neighbours notebooks

test: ## everything: linters, Rust tests, Python tests, portability, documents; says at the end all that failed
	@mkdir -p $(STAMPS)/test && rm -f $(STAMPS)/test/*; \
	{ $(MAKE) --no-print-directory page || touch $(STAMPS)/test/page.failed; } 2>&1 | tee $(STAMPS)/test/page.log; \
	$(MAKE) --no-print-directory test-live >$(STAMPS)/test/test-live.log 2>&1 & live=$$!; trap 'kill $$live 2>/dev/null' INT TERM EXIT; \
	for part in $(TEST_PARTS); do \
	    { nice -n 10 $(MAKE) --no-print-directory $$part || touch $(STAMPS)/test/$$part.failed; } 2>&1 | tee $(STAMPS)/test/$$part.log; \
	done; \
	wait $$live || touch $(STAMPS)/test/test-live.failed; cat $(STAMPS)/test/test-live.log; \
	cd $(STAMPS)/test && if ls *.failed >/dev/null 2>&1; then \
	    printf '\n\033[1m==> What failed\033[0m\n'; \
	    for part in *.failed; do part=$${part%.failed}; echo "make $$part"; \
	        grep -hE '^(FAILED|ERROR) |^test .*FAILED$$|^error(\[|:)' $$part.log | sed 's/^/    /'; done; \
	    exit 1; \
	fi

NEXTEST         := .tools/bin/cargo-nextest
NEXTEST_VERSION := 0.9.151

# What is left out: tests marked `live` or `slow`, and in Rust what .config/nextest.toml names; crates and examples without tests of
# `quick` are not built.
quick: $(STAMPS)/native-quick $(NEXTEST) ## after a small change: the tests that take less than 0.3 s, on all processors
	@failed=; set -x; \
	PATH="$$PATH:$(CURDIR)/.tools/bin" cargo nextest run --locked --cargo-profile quick --profile quick --workspace --exclude cwndlab-live --lib --bins --tests || failed=yes; \
	$(BIN)/pytest -n auto -m 'not live and not slow' || failed=yes; \
	{ set +x; } 2>/dev/null; [ -z "$$failed" ]

$(NEXTEST): | toolchain
	$(SAY) 'cargo-nextest, into .tools (once; some minutes)'
	CARGO_TARGET_DIR=target/nextest cargo install --quiet --locked cargo-nextest --version $(NEXTEST_VERSION) --root .tools
	@rm -rf target/nextest

CARGO_FUZZ         := .tools/bin/cargo-fuzz
CARGO_FUZZ_VERSION := 0.13.2
# Seconds that each parser is fed.
FUZZ_SECONDS       := 1800

soak: soak-scenarios soak-draws soak-fuzz soak-damage soak-load soak-kernel soak-mutants ## hours, by hand: scenarios and files of any kind, all tests ten times beside a load of four, runs on a kernel twice, tests of the tests; docs/evidence/soak.md keeps the output
	rm -rf dist && sh packaging/wheels.sh && sh packaging/try_sdist.sh dist/cwndlab-*.tar.gz

soak-scenarios: toolchain ## a million random scenarios
	CWNDLAB_ANYTHING=$${SOAK_SEED:-1}:1000000 cargo test --locked --profile $(PROFILE) -p cwndlab-sim --test runs anything -- --nocapture

soak-draws: toolchain ## the tests with drawn runs, a hundred times, each time with other draws
	for round in $$(seq 100); do \
	    PROPTEST_RNG_SEED=$$(od -An -N6 -tu8 /dev/urandom | tr -d ' ') cargo test --locked --profile $(PROFILE) -p cwndlab-sim --test runs -- \
	        fast_paths fused guests stepping || exit 1; \
	done

soak-fuzz: toolchain $(STAMPS)/native-$(PROFILE) $(CARGO_FUZZ) ## captures, scripts and logs of any bytes
	mkdir -p target/fuzz/capture target/fuzz/script
	PATH="$$PATH:$(CURDIR)/.tools/bin" cargo +nightly fuzz run --target-dir target/fuzz/build capture target/fuzz/capture fuzz/seeds/capture -- -max_total_time=$(FUZZ_SECONDS) -timeout=60 -max_len=20000
	PATH="$$PATH:$(CURDIR)/.tools/bin" cargo +nightly fuzz run --target-dir target/fuzz/build script target/fuzz/script crates/script/scripts -- -max_total_time=$(FUZZ_SECONDS) -timeout=60 -max_len=4000
	$(BIN)/python tests/formats/fuzz.py all --seconds 300 --seed $${SOAK_SEED:-1}

soak-damage: $(STAMPS)/native-$(PROFILE) ## damaged and altered results, ten thousand of each
	$(BIN)/python tests/results/damage.py --count 10000 --seed $${SOAK_SEED:-1}
	$(BIN)/python tests/results/damage.py --count 10000 --seed $${SOAK_SEED:-1} --altered

soak-load: $(STAMPS)/native-$(PROFILE) ## all tests ten times in a row beside four busy processes
	$(BIN)/python tests/busy.py --times 10 --load 4 $(MAKE) test-rust test-python test-live

# The kernel that soak-kernel runs on: the beginning of a name of `cwndlab kernel list`.
SOAK_KERNEL :=

soak-kernel: agent $(STAMPS)/native-$(PROFILE) ## two hundred runs on SOAK_KERNEL, with loss and jitter, made twice: equal to the byte
	$(BIN)/python tests/testbeds/kernel/soak.py --kernel $(SOAK_KERNEL) --runs 200

soak-explain: agent $(STAMPS)/native-$(PROFILE) ## sixty captures of SOAK_KERNEL explained, of drawn paths and limits: docs/evidence/explain.md keeps how often that is right
	$(BIN)/python tests/testbeds/kernel/explain_trial.py --kernel $(SOAK_KERNEL) --cases 60

# A tree of F-Stack (https://github.com/F-Stack/f-stack).
F_STACK :=

soak-freebsd: $(STAMPS)/native-$(PROFILE) ## FreeBSD's own TCP, of the tree F_STACK, beside recordings of it
	CWNDLAB_F_STACK=$(abspath $(F_STACK)) $(BIN)/pytest tests/foreign/test_freebsd_stack.py

CARGO_MUTANTS         := .tools/bin/cargo-mutants
CARGO_MUTANTS_VERSION := 27.1.0
MUTMUT                := .tools/mutmut
MUTMUT_VERSION        := 3.8.1
# Options of cargo-mutants, such as --file crates/tcp/src/cc/linux/reno.rs, and mutmut's names of faults (default: all).
MUTANTS :=
MUTMUTS :=
# mutmut wants packages beside its settings. Python looks for no folder that was not there when it began, and must not find the
# package where it is sound.
MUTANTS_AT := $(CURDIR)/target/mutmut

# Survivors are no failure: whether a fault changes anything that is promised, a reader has to say. What is made wrong says
# .cargo/mutants.toml for Rust, pyproject.toml for Python.
soak-mutants: toolchain $(STAMPS)/native-$(PROFILE) $(CARGO_MUTANTS) $(MUTMUT) ## faults made in copies of tcp and path, and of Python's decisions: those that no test notices
	-PATH="$$PATH:$(CURDIR)/.tools/bin" nice -n 10 cargo mutants --jobs 1 --no-shuffle $(MUTANTS)
	@rm -rf $(MUTANTS_AT) && mkdir -p $(MUTANTS_AT)/mutants/packages/teacup && cp -rL python/cwndlab tests docs examples packages tools pyproject.toml $(MUTANTS_AT)
	-cd $(MUTANTS_AT) && PYTHONPATH=$(MUTANTS_AT)/mutants:$(MUTANTS_AT)/mutants/packages/teacup:$(CURDIR)/$(MUTMUT) nice -n 10 $(CURDIR)/$(BIN)/python -P -m mutmut run $(MUTMUTS)
	cd $(MUTANTS_AT) && PYTHONPATH=$(CURDIR)/$(MUTMUT) $(CURDIR)/$(BIN)/python -m mutmut results

$(CARGO_MUTANTS): | toolchain
	$(SAY) 'cargo-mutants, into .tools (once; some minutes)'
	CARGO_TARGET_DIR=target/cargo-mutants cargo install --quiet --locked cargo-mutants --version $(CARGO_MUTANTS_VERSION) --root .tools
	@rm -rf target/cargo-mutants

$(MUTMUT): $(STAMPS)/venv
	$(BIN)/pip install --quiet --target $@ mutmut==$(MUTMUT_VERSION)

$(CARGO_FUZZ): | toolchain
	$(SAY) 'cargo-fuzz and a nightly Rust, which it needs (once; some minutes)'
	rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
	CARGO_TARGET_DIR=target/cargo-fuzz cargo install --quiet --locked cargo-fuzz --version $(CARGO_FUZZ_VERSION) --root .tools
	@rm -rf target/cargo-fuzz

# Debian's sources of the newest kernel; where they cannot be had, that is said and nothing else happens.
kernel: agent $(BIN)/cwndlab ## a kernel for testbed kernel and its tests, of Debian's sources: some minutes, once
	sh packaging/kernel.sh $(BIN)/cwndlab target/linux

# Tests of this machine's kernel count as ignored in the first run; the second runs them, where it can or must. It names the
# workspace, too, as crates have other features by themselves and would be built once more.
test-rust: toolchain test-tools ## the Rust tests
	$(SAY) 'Rust tests (profile $(PROFILE))'
	@failed=; set -x; \
	cargo test --locked --profile $(PROFILE) --workspace --no-fail-fast || failed=yes; \
	if [ "$$(id -u)" = 0 ] || [ "$$CWNDLAB_REQUIRE_LIVE" = 1 ]; then \
	    cargo test --locked --profile $(PROFILE) --workspace --tests --no-fail-fast -- --ignored || failed=yes; \
	fi; \
	{ set +x; } 2>/dev/null; [ -z "$$failed" ]

# A shell command: whether the standard library of a target is here, or rustup could add it.
has-target = { [ -d "$$(rustc --print target-libdir --target $(1))" ] || { command -v rustup >/dev/null && rustup target add $(1); }; }
WASM       := wasm32-unknown-unknown

test-wasm: toolchain test-tools ## the golden scenarios on WebAssembly, whose pointers have 32 bits: the same bytes
	$(SAY) 'Golden scenarios on WebAssembly'
	@missing=; \
	if ! $(call has-target,$(WASM)); then missing="Rust's target $(WASM)"; \
	elif ! command -v node >/dev/null; then missing=Node; fi; \
	if [ -n "$$missing" ]; then \
	    echo "left out: $$missing is not here" >&2; [ -z "$$CWNDLAB_REQUIRE_LIVE" ]; \
	else \
	    set -ex; \
	    cargo build --locked --profile $(PROFILE) --target $(WASM) -p cwndlab-sim --example golden; \
	    node crates/sim/tests/golden.mjs $${CARGO_TARGET_DIR:-target}/$(WASM)/$(PROFILE)/examples/golden.wasm crates/sim/tests/runs/golden.txt; \
	fi

AARCH64 := aarch64-unknown-linux-musl

test-aarch64: toolchain ## the golden scenarios on a second processor, which QEMU plays (Debian: qemu-user-static): the same bytes
	$(SAY) 'Golden scenarios on aarch64'
	@$(call has-target,$(AARCH64)) || { echo "Rust's target $(AARCH64) is not here" >&2; exit 1; }
	env $(AGENT_LINKERS) CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64-static \
	    cargo test --locked --profile $(PROFILE) --target $(AARCH64) -p cwndlab-sim --test runs golden

PAGE       := python/cwndlab/report/live_page/page
PAGE_BYTES := 1500000

web: $(STAMPS)/web-release ## the live lab (`cwndlab live`): the engine for a browser, and the plan's templates of Scenarios
	@bytes=$$(cat $(PAGE)/* | wc -c); echo "the page has $$bytes bytes"; \
	[ "$$bytes" -lt $(PAGE_BYTES) ] || { echo 'too large: $(PAGE_BYTES) are allowed' >&2; exit 1; }

golden: toolchain ## write the hashes of the golden scenarios again (say in the commit why they changed)
	CWNDLAB_UPDATE_GOLDEN=1 cargo test --locked --profile $(PROFILE) -p cwndlab-sim --test runs golden::every_series

contract: $(STAMPS)/native-$(PROFILE) ## write Python's types of what crosses to the engine again (python/cwndlab/contract), and the page of queues and applications
	$(BIN)/python crates/contract/typed_dicts.py
	$(BIN)/python docs/parameters.py
	$(BIN)/python docs/criteria.py

test-python: page test-tools ## the Python tests, but for those of this machine's kernel
	$(SAY) 'Python tests'
	$(BIN)/pytest -n auto -m 'not live'

test-live: page test-tools ## the Python tests of this machine's kernel, one by one
	$(SAY) "Python tests of this machine's kernel"
	$(BIN)/pytest -m live --reruns 2 --reruns-delay 5

# The engine, the same that the Rust tests test, and the live lab.
page: $(STAMPS)/native-$(PROFILE)
	@if ! { $(call has-target,$(WASM)); }; then echo "no live lab: Rust's target $(WASM) is not here" >&2; \
	else $(MAKE) --no-print-directory $(STAMPS)/web-$(PROFILE); fi

test-portable: toolchain $(STAMPS)/native-$(PROFILE) ## what needs neither Linux nor root: what macOS and FreeBSD run
	cargo test --locked --profile $(PROFILE) --workspace --exclude cwndlab-live --no-fail-fast
	$(BIN)/pytest -n auto -m 'not live'

lint: rustfmt clippy ruff imports mypy ## rustfmt, clippy, ruff, who imports whom, mypy

rustfmt: toolchain
	$(SAY) 'rustfmt'
	cargo fmt --all --check

clippy: toolchain
	$(SAY) 'clippy'
	cargo clippy --locked --profile $(PROFILE) --workspace --all-targets -- -D warnings

ruff: $(STAMPS)/venv
	$(SAY) 'ruff'
	$(BIN)/ruff check
	$(BIN)/ruff format --check

# Reads the sources only: no engine is needed.
imports: $(STAMPS)/venv
	$(SAY) 'Imports: rooms in one direction, no cycle'
	$(BIN)/pytest --noconftest tests/structure

mypy: $(STAMPS)/venv
	$(SAY) 'mypy'
	$(BIN)/mypy

# Everything but `live` has to build on FreeBSD and macOS. Where the standard library of the FreeBSD target is here, or
# rustup can add it, the compiler says whether it does; it needs no linker to check. Where it is not, the sources of those
# crates are searched for what only Linux has, which is how portability gets lost (but not those of `script`, whose
# language has Linux's words in it, nor of `agent`, which says for each system what it does there).
FREEBSD   := x86_64-unknown-freebsd
LINUXISMS := os::linux|target_os *= *"linux"|AF_PACKET|epoll|timerfd|sock_diag|netlink|/proc/|/sys/class|ioctl

portable: toolchain ## everything but `live` builds without Linux
	$(SAY) 'Portability: everything but live, without Linux'
	@if $(call has-target,$(FREEBSD)); then \
	    set -x; \
	    cargo check --locked --quiet --profile $(PROFILE) --workspace --exclude cwndlab-live --target $(FREEBSD); \
	elif grep -rnE --include='*.rs' '$(LINUXISMS)' $(filter-out crates/live/ crates/script/ crates/agent/,$(wildcard crates/*/)); then \
	    echo 'only crates/live may use what only Linux has' >&2; exit 1; \
	elif cargo tree --locked --workspace --exclude cwndlab-live --target $(FREEBSD) --edges normal,build --prefix none \
	    | grep -E '^(nix|rtnetlink|netlink|procfs|io-uring)'; then \
	    echo 'only crates/live may depend on packages made for Linux' >&2; exit 1; \
	else \
	    echo 'no Linux-only item found (the target $(FREEBSD) is not here; the compiler was not asked)'; \
	fi

SITE := .tools/docs/bin

docs: toolchain page $(STAMPS)/docs | $(BIN)/cwndlab ## the documentation site with rustdoc in it, into target/site; a warning is an error
	$(SAY) 'The documentation site'
	@NO_MKDOCS_2_WARNING=1 CWNDLAB_PYTHON=$(CURDIR)/$(BIN)/python $(SITE)/mkdocs --quiet build --strict
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --locked --quiet --profile $(PROFILE) --workspace --no-deps
	@rm -rf target/site/rust && cp -r $${CARGO_TARGET_DIR:-target}/doc target/site/rust
	$(BIN)/python docs/check.py --site target/site

# PUBLISHED is a checkout of the branch that the site is served from.
publish-docs: docs ## put the site beside those of earlier versions: make publish-docs PUBLISHED=DIR VERSION=main
	$(BIN)/python docs/publish.py target/site '$(PUBLISHED)' '$(VERSION)'

examples: $(BIN)/cwndlab ## every example of the README and docs/ runs, and prints what its page says
	$(BIN)/python docs/examples.py

# They run with the packages of .venv, beside which they need nothing but what runs notebooks.
NOTEBOOKS := .tools/notebooks
notebooks: $(STAMPS)/notebooks | $(BIN)/cwndlab ## the example notebooks run, from the first cell to the last; with their output in target/notebooks
	$(SAY) 'Notebooks'
	IPYTHONDIR=$(CURDIR)/target/notebooks/ipython JUPYTER_CONFIG_DIR=$(CURDIR)/target/notebooks/jupyter \
	PYTHONPATH=$(CURDIR)/python:$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	    $(NOTEBOOKS)/bin/jupyter-nbconvert --log-level ERROR --to html --execute --output-dir target/notebooks examples/notebooks/*.ipynb

# Packages of other people that read what cwndlab writes, beside those of .venv.
NEIGHBOURS := .tools/neighbours
neighbours: $(STAMPS)/neighbours | $(BIN)/cwndlab ## pandas and xarray with results, quiche's types of qlog with an export, rocrate with a bundle, hadolint, cyclonedx and kubernetes-validate with recipes
	$(SAY) 'Other packages with our results'
	$(NEIGHBOURS)/bin/python -c 'import cyclonedx, pandas, rocrate, xarray'
	cargo build --quiet --locked --manifest-path tests/formats/qlog_reader/Cargo.toml --target-dir .tools/qlog-reader
	PYTHONPATH=$(CURDIR)/python:$(CURDIR)/packages/teacup:$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	    $(NEIGHBOURS)/bin/python -m pytest tests/cli/test_neighbours.py

pictures: $(BIN)/cwndlab ## the pictures and what is printed on all pages again, from real runs (needs chromium)
	$(BIN)/python docs/examples.py --update
	$(BIN)/python docs/pictures.py

$(STAMPS)/docs: packaging/docs.lock | $(STAMPS)/venv
	@$(PYTHON) -m venv .tools/docs && $(SITE)/pip install --quiet --require-hashes -r $<
	@touch $@

$(STAMPS)/neighbours $(STAMPS)/notebooks: $(STAMPS)/%: packaging/%.lock | $(STAMPS)/venv
	@$(PYTHON) -m venv .tools/$* && .tools/$*/bin/pip install --quiet --require-hashes -r $<
	@touch $@

# Whichever engine is installed will do.
$(BIN)/cwndlab:
	$(MAKE) $(STAMPS)/native-$(PROFILE)

wheels: toolchain ## the source distribution, a wheel for Linux, and their checksums, into dist/; then the wheel is tried
	sh packaging/wheels.sh
	sh packaging/try_wheel.sh dist/*-manylinux*_x86_64.whl

docs-check: $(STAMPS)/venv docs ## links between the documents, and the site
	$(SAY) 'Documentation'
	$(BIN)/python docs/check.py

fidelity: setup ## the models against the recordings of real systems in groundtruth/; rewrites docs/evidence/fidelity.md
	$(SAY) 'Fidelity'
	@$(BIN)/python -m tools.truth fidelity

bench: setup test-tools ## the engine's benchmarks, captures beside tshark, the comparison with ns-3 (Debian: libns3-dev), disciplines (valgrind)
	@{ pkg-config --exists ns3-core && command -v valgrind >/dev/null; } || { \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get install -y libns3-dev g++ pkg-config valgrind; \
	    else echo 'ns-3 or valgrind is not installed (Debian: apt install libns3-dev g++ pkg-config valgrind)' >&2; exit 1; fi; }
	$(BIN)/python benches/scenarios.py target/bench
	cargo bench --locked -p cwndlab-sim
	cargo bench --locked -p cwndlab-path
	$(BIN)/python benches/compare.py
	$(BIN)/python benches/captures.py target/bench/captures
	$(BIN)/python benches/disciplines.py  # last, as it fails if a discipline costs more than twice what pfifo does

instructions: setup ## whether a packet costs the engine over 3 % more instructions than recorded (Debian: valgrind)
	$(BIN)/python benches/instructions.py

PINNED := --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate --no-emit-index-url --no-emit-find-links

lock: $(STAMPS)/venv ## make requirements.lock again from pyproject.toml
	$(BIN)/pip install --quiet pip-tools
	@{ echo '# Every Python package cwndlab runs, tests and builds with, pinned by version and hash.'; \
	   echo '# Made from pyproject.toml by `make lock`; installed by `make setup`.'; } > $(STAMPS)/requirements.lock
	@$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); print("pip", *p["build-system"]["requires"], \
	    *p["project"]["dependencies"], *p["project"]["optional-dependencies"]["cluster"], *p["dependency-groups"]["dev"], sep="\n")' > $(STAMPS)/requirements.in
	$(BIN)/pip-compile $(PINNED) --output-file - $(STAMPS)/requirements.in >> $(STAMPS)/requirements.lock
	@mv $(STAMPS)/requirements.lock requirements.lock

lock-docs lock-wheels lock-neighbours lock-notebooks: lock-%: $(STAMPS)/venv ## make the lock of the site's, the wheels', the neighbours' or the notebooks' tools again
	$(BIN)/pip install --quiet pip-tools
	@{ echo '# What `make $*` needs, pinned by version and hash. Made from pyproject.toml by `make lock-$*`.'; } > $(STAMPS)/$*.lock
	@$(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"][sys.argv[1]], sep="\n")' $* > $(STAMPS)/$*.in
	$(BIN)/pip-compile $(PINNED) --output-file - $(STAMPS)/$*.in >> $(STAMPS)/$*.lock
	@mkdir -p packaging && mv $(STAMPS)/$*.lock packaging/$*.lock

clean: ## remove everything that make made, but not results/
	rm -rf $(VENV) $(STAMPS) target python/cwndlab/_native*.so \
	    $(addprefix $(PAGE)/,engine.js engine_bg.wasm templates.json)

# ---- how the pieces are made

toolchain:
	@command -v cargo >/dev/null || { \
	    echo 'cwndlab needs Rust 1.90 or newer: https://rustup.rs (or your system: pkg install rust)' >&2; exit 1; }

$(STAMPS)/venv: requirements.lock packages/teacup/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo 'cwndlab needs Python 3.11 or newer; set PYTHON=... to choose one' >&2; exit 1; }
	$(SAY) 'Python packages, into $(VENV)'
	@if [ -x $(BIN)/python ]; then :; \
	elif $(PYTHON) -c 'import ensurepip' 2>/dev/null; then $(PYTHON) -m venv $(VENV); \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get install -y --no-install-recommends python3-venv && $(PYTHON) -m venv $(VENV); \
	else echo 'the venv module of Python is missing (Debian: apt install python3-venv)' >&2; exit 1; fi
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable packages/teacup
	@mkdir -p $(STAMPS) && touch $@

# The module is built in place (python/cwndlab/_native.abi3.so); the newest build wins, so one stamp removes the other.
$(STAMPS)/native-release $(STAMPS)/native-quick $(STAMPS)/native-$(PROFILE): $(STAMPS)/native-%: $(STAMPS)/venv $(RUST_SOURCES) | toolchain
	$(SAY) 'The engine, profile $* (the first build takes a minute or two)'
	PIP_QUIET=1 $(BIN)/maturin develop --locked --profile $*
	@rm -f $(STAMPS)/native-* && touch $@

# Where either profile will do, as for the plan's templates: the one that is installed.
INSTALLED = $(if $(wildcard $(STAMPS)/native-release),release,$(PROFILE))
engine: $(STAMPS)/native-$(INSTALLED)

test-tools:
	@missing=; for pair in $(TEST_TOOLS); do \
	    PATH="$$PATH:/usr/sbin:/sbin" command -v $${pair%%:*} >/dev/null || [ -e $${pair%%:*} ] || missing="$$missing $${pair##*:}"; done; \
	[ -z "$$missing" ] || { \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        echo "installing what tests call:$$missing"; \
	        apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	    else echo "tests call programs that are missing here; install$$missing" >&2; fi; }

# `bind` makes of the module what a browser loads, as the command wasm-bindgen does, whose library it is. The page is made in
# place, as the engine of Python is, whose plan writes the templates.
$(STAMPS)/web-release $(STAMPS)/web-$(PROFILE): $(STAMPS)/web-%: $(STAMPS)/native-$(INSTALLED) $(RUST_SOURCES) $(wildcard crates/web/bind/Cargo.*) \
    $(shell find python/cwndlab -name '*.py' -o -name '*.yaml')
	$(SAY) 'The engine for a browser, profile $* (the first build takes a minute or two)'
	@$(call has-target,$(WASM)) || { echo "Rust's target $(WASM) is not here" >&2; exit 1; }
	cargo build --locked --profile $* --target $(WASM) -p cwndlab-web
	cargo run --locked --quiet --manifest-path crates/web/bind/Cargo.toml --target-dir target/bind -- \
	    $${CARGO_TARGET_DIR:-target}/$(WASM)/$*/web.wasm $(PAGE)
	$(BIN)/python -m cwndlab.report.live_page.templates $(PAGE)/templates.json
	@rm -f $(STAMPS)/web-* && touch $@
