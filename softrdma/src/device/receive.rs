//! Receive requests in rings that peers read: the owner's side.
