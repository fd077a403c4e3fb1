# The ways in. `make run` shows the library at work, `make test` proves it, `make install` puts it into a system.

CARGO ?= cargo
CC ?= cc
PREFIX ?= /usr/local
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)
LIBDIR ?= $(PREFIX)/lib$(if $(MULTIARCH),/$(MULTIARCH))
BINDIR ?= $(PREFIX)/bin
INCLUDEDIR ?= $(PREFIX)/include
PRIVATEDIR := $(LIBDIR)/ironverbs
MANDIR ?= $(PREFIX)/share/man
BASHDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR ?= $(PREFIX)/share/zsh/site-functions
DOCDIR ?= $(PREFIX)/share/doc/ironverbs
DESTDIR ?=

TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
BUILT := $(TARGET)/release
LIBRARY := $(BUILT)/libibverbs.so
UMAD := $(BUILT)/libibumad.so
# rdma-core 44 names its files so; the soname is the part that programs ask for.
VERSION := 1.14.44.0
UMAD_VERSION := 3.2.44.0

.PHONY: all build deps run run-kernel test test-all soak bench headers compatibility packages wheel release deps-packages deps-release install install-command install-dev clean

all: build

deps:
	@scripts/install-deps

build:
	$(CARGO) build --release

# Debian's programs on the software device: no hardware, no root, no kernel module.
run:
	@scripts/install-deps run
	$(CARGO) build --release
	@scripts/demo $(BUILT)

# The same on the kernel's soft-RoCE devices, in a guest.
run-kernel:
	@scripts/install-deps run-kernel
	$(CARGO) build --release
	@scripts/build-perftest
	@guest/run --library $(BUILT) --timeout 300 scripts/demo-kernel $(TARGET)/perftest

# tests/layers.txt says what each set of layers has, tests/triggers.txt what a change triggers; LAYERS='symbols abi' runs
# these alone, FULL=1 all that a change could trigger here, SHARE=2/6 a sixth of the longer ones.
LAYERS ?=

test: deps
	@scripts/test $(or $(LAYERS),test)

test-all: deps
	@scripts/test all

soak: deps
	@scripts/test soak

# Each beside rdma-core in one run.
bench: deps build
	@bench/kernel/run --library $(LIBRARY) --write
	@bench/devinfo-syscalls
	@bench/soft/sizes --write
	@bench/soft/run --write
	@bench/network/run --write

headers:
	$(CARGO) run --quiet -p xtask -- headers

# docs/compatibility.md, from the sources and from what test runs have recorded.
compatibility:
	$(CARGO) run --quiet -p xtask -- compatibility

$(LIBRARY) $(UMAD) $(BUILT)/ironverbs:
	$(CARGO) build --release

# What `ironverbs run` needs, in a folder of its own: nothing else of the system changes.
install-command: $(LIBRARY) $(UMAD) $(BUILT)/ironverbs
	install -d $(DESTDIR)$(PRIVATEDIR) $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man7 \
	  $(DESTDIR)$(BASHDIR) $(DESTDIR)$(ZSHDIR) $(DESTDIR)$(DOCDIR)
	install -m 644 $(LIBRARY) $(DESTDIR)$(PRIVATEDIR)/libibverbs.so.$(VERSION)
	ln -sf libibverbs.so.$(VERSION) $(DESTDIR)$(PRIVATEDIR)/libibverbs.so.1
	install -m 644 $(UMAD) $(DESTDIR)$(PRIVATEDIR)/libibumad.so.$(UMAD_VERSION)
	ln -sf libibumad.so.$(UMAD_VERSION) $(DESTDIR)$(PRIVATEDIR)/libibumad.so.3
	install -m 644 $(BUILT)/libironverbs-view.so $(BUILT)/libironverbs_ucma.so $(DESTDIR)$(PRIVATEDIR)/
	install -m 755 $(BUILT)/ironverbs $(DESTDIR)$(PRIVATEDIR)/
	ln -srf $(DESTDIR)$(PRIVATEDIR)/ironverbs $(DESTDIR)$(BINDIR)/ironverbs
	install -m 644 man/*.1 $(DESTDIR)$(MANDIR)/man1/
	install -m 644 man/*.7 $(DESTDIR)$(MANDIR)/man7/
	$(BUILT)/ironverbs completions bash > $(DESTDIR)$(BASHDIR)/ironverbs
	$(BUILT)/ironverbs completions zsh > $(DESTDIR)$(ZSHDIR)/_ironverbs
	chmod 644 $(DESTDIR)$(BASHDIR)/ironverbs $(DESTDIR)$(ZSHDIR)/_ironverbs
	install -m 644 LICENSE-MIT LICENSE-APACHE docs/differences.md docs/environment.md docs/software-device.md \
	  $(DESTDIR)$(DOCDIR)/

# For static links.
ARCHIVE := $(TARGET)/static/out/libibverbs.a

$(ARCHIVE): $(LIBRARY)
	@scripts/build-static

# What C programs build against.
install-dev: $(ARCHIVE) $(UMAD)
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR)/infiniband
	install -m 644 $(ARCHIVE) $(UMAD:.so=.a) $(DESTDIR)$(LIBDIR)/
	ln -sf libibverbs.so.1 $(DESTDIR)$(LIBDIR)/libibverbs.so
	ln -sf libibumad.so.3 $(DESTDIR)$(LIBDIR)/libibumad.so
	install -m 644 include/infiniband/*.h $(DESTDIR)$(INCLUDEDIR)/infiniband/
	for name in libibverbs libibumad; do \
	  sed -e 's|@prefix@|$(PREFIX)|' -e 's|@libdir@|$(LIBDIR)|' -e 's|@includedir@|$(INCLUDEDIR)|' \
	    pkgconfig/$$name.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/$$name.pc && \
	  chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/$$name.pc || exit 1; \
	done

# All of that, and the libraries where the loader looks for them.
install: install-command install-dev
	ln -srf $(DESTDIR)$(PRIVATEDIR)/libibverbs.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libibverbs.so.1
	ln -srf $(DESTDIR)$(PRIVATEDIR)/libibumad.so.$(UMAD_VERSION) $(DESTDIR)$(LIBDIR)/libibumad.so.3

# .deb and .rpm files in target/packages.
packages: deps-packages build
	@packaging/build --built $(BUILT)

# The Python wheel, in target/wheel.
wheel: deps-packages build
	@packaging/wheel/build --built $(BUILT)

# From the tag that is checked out, all that a release has, checked, in target/release-artefacts. AARCH64=1 makes the wheel
# for aarch64, too.
TAG ?=

release: deps-release
	@packaging/release/make $(if $(AARCH64),--aarch64) $(TAG)

deps-packages:
	@scripts/install-deps packages

deps-release:
	@scripts/install-deps release

clean:
	$(CARGO) clean
