//! Extended connection (XRC) domains.

use super::{PluginContext, call, done, made};
use crate::abi::verbs::*;
use crate::errno::Result;
use crate::provider::object::Handle;
use crate::provider::verbs::Xrcds;

impl Xrcds for PluginContext {
    fn open_xrcd(&self, attr: &mut ibv_xrcd_init_attr) -> Result<Handle<ibv_xrcd>> {
        made(call!(self.open_xrcd(self.context, attr)))
    }

    fn close_xrcd(&self, xrcd: Handle<ibv_xrcd>) -> Result<()> {
        done(call!(self.close_xrcd(xrcd.as_ptr())))
    }
}
