//! Queue pairs that are connected to other hosts, in network namespaces that each test makes for itself.

mod acknowledgements;
mod attacks;
mod congestion;
mod datagrams;
mod full;
mod held;
mod hosts;
mod interrupted;
mod leave;
mod many;
mod peer;
mod pieces;
mod refused;
mod states;
mod stopped;
mod tail_loss;
mod whole;
