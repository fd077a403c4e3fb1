//! Functions of umad_str.h.

use super::__be16;
use libc::c_char;

unsafe extern "C" {
    /// Name of a management class.
    pub fn umad_class_str(mgmt_class: u8) -> *const c_char;
    /// Name of a method.
    pub fn umad_method_str(mgmt_class: u8, method: u8) -> *const c_char;
    /// Name of an attribute.
    pub fn umad_attribute_str(mgmt_class: u8, attr_id: __be16) -> *const c_char;
    /// Text for a status that every class has.
    pub fn umad_common_mad_status_str(status: __be16) -> *const c_char;
    /// Text for a status of subnet administration.
    pub fn umad_sa_mad_status_str(status: __be16) -> *const c_char;
}
