//! Same-host transport: shared-memory segments, locks, payload copies and wake-ups.
