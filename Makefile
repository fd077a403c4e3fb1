# The ways in. `make run` shows the library at work, `make test` proves it, `make install` puts it into a system.

CARGO ?= cargo
CC ?= cc
PREFIX ?= /usr/local
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)
LIBDIR ?= $(PREFIX)/lib$(if $(MULTIARCH),/$(MULTIARCH))
BINDIR ?= $(PREFIX)/bin
INCLUDEDIR ?= $(PREFIX)/include
DOCDIR ?= $(PREFIX)/share/doc/ironverbs
DESTDIR ?=

TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
BUILT := $(TARGET)/release
LIBRARY := $(BUILT)/libibverbs.so
# rdma-core 44 names its file so; the soname is the part that programs ask for.
VERSION := 1.14.44.0

.PHONY: all build deps run run-kernel test test-all soak bench headers compatibility install clean

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

# tests/layers.txt says what each set of layers has; LAYERS='symbols abi' runs these alone.
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
	@bench/soft/run

headers:
	$(CARGO) run --quiet -p xtask -- headers

# docs/compatibility.md, from the sources and from what test runs have recorded.
compatibility:
	$(CARGO) run --quiet -p xtask -- compatibility

$(LIBRARY) $(BUILT)/ironverbs:
	$(CARGO) build --release

install: $(LIBRARY) $(BUILT)/ironverbs
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(LIBDIR)/ironverbs $(DESTDIR)$(BINDIR) \
	  $(DESTDIR)$(INCLUDEDIR)/infiniband $(DESTDIR)$(DOCDIR)
	install -m 644 $(LIBRARY) $(DESTDIR)$(LIBDIR)/libibverbs.so.$(VERSION)
	ln -sf libibverbs.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libibverbs.so.1
	ln -sf libibverbs.so.1 $(DESTDIR)$(LIBDIR)/libibverbs.so
	ln -sf ../libibverbs.so.1 $(DESTDIR)$(LIBDIR)/ironverbs/libibverbs.so.1
	install -m 644 $(BUILT)/libironverbs-view.so $(BUILT)/libironverbs_ucma.so $(DESTDIR)$(LIBDIR)/ironverbs/
	install -m 755 $(BUILT)/ironverbs $(DESTDIR)$(LIBDIR)/ironverbs/
	ln -srf $(DESTDIR)$(LIBDIR)/ironverbs/ironverbs $(DESTDIR)$(BINDIR)/ironverbs
	install -m 644 include/infiniband/*.h $(DESTDIR)$(INCLUDEDIR)/infiniband/
	sed -e 's|@prefix@|$(PREFIX)|' -e 's|@libdir@|$(LIBDIR)|' -e 's|@includedir@|$(INCLUDEDIR)|' \
	  pkgconfig/libibverbs.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/libibverbs.pc
	chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/libibverbs.pc
	install -m 644 LICENSE-MIT LICENSE-APACHE $(DESTDIR)$(DOCDIR)/

clean:
	$(CARGO) clean
