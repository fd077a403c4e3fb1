//! Functions that programs call by name, as umad.h declares them.
//!
//! The header generator takes the prototypes from here.

use super::umad::*;
use super::{__be16, __be32, __be64};
use libc::{c_char, c_int, c_long, c_uint, c_void, size_t};

unsafe extern "C" {
    /// Has no effect. 0.
    pub fn umad_init() -> c_int;
    /// Has no effect. 0.
    pub fn umad_done() -> c_int;
    /// Writes the names of at most `max` CAs, sorted; how many they are. Without the folder of sysfs 1, of a
    /// name that used to be common.
    pub fn umad_get_cas_names(cas: *mut [c_char; UMAD_CA_NAME_LEN], max: c_int) -> c_int;
    /// Writes the GUIDs of a CA's ports, from port 0 on, 0 where there is none; how many they are, or -errno.
    pub fn umad_get_ca_portguids(ca_name: *const c_char, portguids: *mut __be64, max: c_int) -> c_int;
    /// Reads a CA, by default the first one with an active port. 0 or -errno. Release it with
    /// `umad_release_ca`.
    pub fn umad_get_ca(ca_name: *const c_char, ca: *mut umad_ca) -> c_int;
    /// Frees the ports of a CA. 0 or -errno.
    pub fn umad_release_ca(ca: *mut umad_ca) -> c_int;
    /// Reads a port, by default the first active one. 0 or -errno. Release it with `umad_release_port`.
    pub fn umad_get_port(ca_name: *const c_char, portnum: c_int, port: *mut umad_port) -> c_int;
    /// Frees the partition keys of a port. 0 or -errno.
    pub fn umad_release_port(port: *mut umad_port) -> c_int;
    /// Writes the path of the file that makes a port a subnet manager's while it is open. 0 or -errno.
    pub fn umad_get_issm_path(ca_name: *const c_char, portnum: c_int, path: *mut c_char, max: c_int)
    -> c_int;
    /// Opens a port, by default the first active one. A descriptor or -errno.
    pub fn umad_open_port(ca_name: *const c_char, portnum: c_int) -> c_int;
    /// As `umad_open_port`, but by default only of ports that take subnet management datagrams.
    pub fn umad_open_smi_port(ca_name: *const c_char, portnum: c_int) -> c_int;
    /// Closes a port. 0.
    pub fn umad_close_port(portid: c_int) -> c_int;
    /// The datagram in a buffer.
    pub fn umad_get_mad(umad: *mut c_void) -> *mut c_void;
    /// Bytes in front of the datagram: 64, or 56 where the kernel knows no partition key index.
    pub fn umad_size() -> size_t;
    /// 0, or the errno value with which a request ended.
    pub fn umad_status(umad: *mut c_void) -> c_int;
    /// The address in a buffer.
    pub fn umad_get_mad_addr(umad: *mut c_void) -> *mut ib_mad_addr;
    /// Takes the GRH of an address whose flow label is in host byte order, or none. 0.
    pub fn umad_set_grh(umad: *mut c_void, mad_addr: *mut c_void) -> c_int;
    /// Sets the address from network byte order. 0.
    pub fn umad_set_addr_net(umad: *mut c_void, dlid: __be16, dqp: __be32, sl: c_int, qkey: __be32) -> c_int;
    /// Sets the address from host byte order. 0.
    pub fn umad_set_addr(umad: *mut c_void, dlid: c_int, dqp: c_int, sl: c_int, qkey: c_int) -> c_int;
    /// Sets the partition key index, where the kernel knows one. 0.
    pub fn umad_set_pkey(umad: *mut c_void, pkey_index: c_int) -> c_int;
    /// The partition key index, or 0 where the kernel knows none.
    pub fn umad_get_pkey(umad: *mut c_void) -> c_int;
    /// Sends a datagram of `length` bytes, of which an answer is expected within `timeout_ms` unless that is 0.
    /// 0 or -EIO with the error in errno.
    pub fn umad_send(
        portid: c_int,
        agentid: c_int,
        umad: *mut c_void,
        length: c_int,
        timeout_ms: c_int,
        retries: c_int,
    ) -> c_int;
    /// Waits up to `timeout_ms`, for ever if that is negative, and takes a datagram of up to `length` bytes.
    /// The agent's number, or -errno with the error in errno; `length` is then what the datagram needs.
    pub fn umad_recv(portid: c_int, umad: *mut c_void, length: *mut c_int, timeout_ms: c_int) -> c_int;
    /// Waits up to `timeout_ms`, for ever if that is negative. 0, -ETIMEDOUT or -EIO.
    pub fn umad_poll(portid: c_int, timeout_ms: c_int) -> c_int;
    /// The descriptor itself.
    pub fn umad_get_fd(portid: c_int) -> c_int;
    /// Registers an agent. Its number or -EPERM.
    pub fn umad_register(
        portid: c_int,
        mgmt_class: c_int,
        mgmt_version: c_int,
        rmpp_version: u8,
        method_mask: *mut c_long,
    ) -> c_int;
    /// Registers an agent of a vendor's class from 0x30 to 0x4f. Its number, -EINVAL or -EPERM.
    pub fn umad_register_oui(
        portid: c_int,
        mgmt_class: c_int,
        rmpp_version: u8,
        oui: *mut u8,
        method_mask: *mut c_long,
    ) -> c_int;
    /// Unregisters an agent. 0 or -1.
    pub fn umad_unregister(portid: c_int, agentid: c_int) -> c_int;
    /// Sorts a list by name; its length may be 0 for unknown. 0 or an errno value.
    pub fn umad_sort_ca_device_list(head: *mut *mut umad_device_node, size: size_t) -> c_int;
    /// List of CAs; null and errno on failure, null alone where there is none. Free it with
    /// `umad_free_ca_device_list`.
    pub fn umad_get_ca_device_list() -> *mut umad_device_node;
    /// Frees a list.
    pub fn umad_free_ca_device_list(head: *mut umad_device_node);
    /// Registers an agent, with flags. 0 or an errno value.
    pub fn umad_register2(port_fd: c_int, attr: *mut umad_reg_attr, agent_id: *mut u32) -> c_int;
    /// Sets what is written to the standard error, unless `level` is negative: 0 nothing, 1 what is done, 2
    /// also what is sent. The level.
    pub fn umad_debug(level: c_int) -> c_int;
    /// Writes an address to the standard error.
    pub fn umad_addr_dump(addr: *mut ib_mad_addr);
    /// Writes the header of a datagram to the standard error.
    pub fn umad_dump(umad: *mut c_void);
    /// Writes at most `max` pairs of CAs for subnet management and general services; how many they are, or -1.
    pub fn umad_get_smi_gsi_pairs(cas: *mut umad_ca_pair, max: size_t) -> c_int;
    /// The pair that a CA belongs to, and the ports to use, by default active ones. 0, -ENODEV or another
    /// number; also 0 where there is no pair at all.
    pub fn umad_get_smi_gsi_pair_by_ca_name(
        devname: *const c_char,
        portnum: u8,
        ca_pair: *mut umad_ca_pair,
        enforce_smi: c_uint,
    ) -> c_int;
}
