# The ways in. `make run` shows the library at work, `make test` proves it, `make install` puts it into a system.

CARGO ?= cargo
CC ?= cc
PREFIX ?= /usr/local
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)
LIBDIR ?= $(PREFIX)/lib$(if $(MULTIARCH),/$(MULTIARCH))
INCLUDEDIR ?= $(PREFIX)/include
DOCDIR ?= $(PREFIX)/share/doc/ironverbs
DESTDIR ?=

TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
LIBRARY := $(TARGET)/release/libibverbs.so
# rdma-core 44 names its file so; the soname is the part that programs ask for.
VERSION := 1.14.44.0

.PHONY: all build deps run-deps run test bench headers compatibility install clean

all: build

deps:
	@scripts/install-deps

run-deps:
	@scripts/install-deps run

build:
	$(CARGO) build --release

# Debian's programs and perftest on this library, between two soft-RoCE devices in a guest.
run: run-deps build
	@scripts/build-perftest
	@guest/run --library $(TARGET)/release --timeout 300 scripts/demo $(TARGET)/perftest

test: deps
	@scripts/test

# Each beside rdma-core in one run.
bench: deps build
	@$(CARGO) run --quiet --release -p bench-poll
	@bench/devinfo-syscalls

headers:
	$(CARGO) run --quiet -p xtask -- headers

# docs/compatibility.md, from the sources and from what test runs have recorded.
compatibility:
	$(CARGO) run --quiet -p xtask -- compatibility

$(LIBRARY):
	$(CARGO) build --release

install: $(LIBRARY)
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR)/infiniband $(DESTDIR)$(DOCDIR)
	install -m 644 $(LIBRARY) $(DESTDIR)$(LIBDIR)/libibverbs.so.$(VERSION)
	ln -sf libibverbs.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libibverbs.so.1
	ln -sf libibverbs.so.1 $(DESTDIR)$(LIBDIR)/libibverbs.so
	install -m 644 include/infiniband/*.h $(DESTDIR)$(INCLUDEDIR)/infiniband/
	sed -e 's|@prefix@|$(PREFIX)|' -e 's|@libdir@|$(LIBDIR)|' -e 's|@includedir@|$(INCLUDEDIR)|' \
	  pkgconfig/libibverbs.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/libibverbs.pc
	chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/libibverbs.pc
	install -m 644 LICENSE-MIT LICENSE-APACHE $(DESTDIR)$(DOCDIR)/

clean:
	$(CARGO) clean
