//! Transactions, one death at a time: whoever dies after any step, and whoever dies within the repair of that,
//! what is left is all or nothing. And transactions on memory full of lies: they end, inside of the memory.

mod bare;
mod burst;
mod burst_deaths;
mod burst_refused;
mod busy;
mod deaths;
mod lies;
mod place;
mod queues;
mod responder;
mod straight;
