//! A send request on its way out, with what every carrier needs to know of it.

use crate::rules::requester::Posted;

use super::initiator::Initiator;
use super::near::completion_order::CompletionOrder;
use super::near::endpoint::Endpoint;
use super::wr::Wr;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a, 'q> {
    /// The process that sends it.
    pub endpoint: &'a Endpoint,
    /// The queue pair that sends it.
    pub from: &'a Initiator,
    /// The request as it was posted.
    pub wr: &'a Wr<'a>,
    /// What its send queue knows of it.
    pub request: &'a Posted,
    /// Puts its own completion in order.
    pub order: &'a CompletionOrder<'q>,
}
