//! What is sent is what arrives.
