//! UDP port 4791 shared by processes, in network namespaces that each test makes for itself.

mod crew;
mod places;
mod taken;
mod traffic;
