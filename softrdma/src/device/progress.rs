//! Requests that had to wait: tried again from later calls, and from a thread when their time comes.
