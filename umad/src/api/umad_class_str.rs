//! `umad_class_str(3)`: names of what stands in datagrams.

use core::ffi::{CStr, c_char};

use crate::abi::__be16;

const UNKNOWN: &CStr = c"<unknown>";

/// Class of subnet management by local identifier.
const SUBN: u8 = 0x01;
/// Class of subnet management by directed route.
const SUBN_DIRECTED_ROUTE: u8 = 0x81;
/// Class of subnet administration.
const SUBN_ADM: u8 = 0x03;
/// Class of communication management.
const CM: u8 = 0x07;

/// Name of a management class.
#[unsafe(no_mangle)]
pub extern "C" fn umad_class_str(mgmt_class: u8) -> *const c_char {
    let name = match mgmt_class {
        0x01 | 0x81 => c"Subn",
        0x03 => c"SubnAdm",
        0x04 => c"Perf",
        0x05 => c"BM",
        0x06 => c"DevMgt",
        0x07 => c"ComMgt",
        0x08 => c"SNMP",
        0x10 => c"DevAdm",
        0x11 => c"BootMgt",
        0x12 => c"BIS",
        0x21 => c"CongestionManagment",
        0x09..=0x0f | 0x30..=0x4f => c"Vendor",
        0x13..=0x20 | 0x22..=0x2f => c"Application",
        _ => UNKNOWN,
    };
    name.as_ptr()
}

/// Name of a method, of subnet administration or of all classes.
#[unsafe(no_mangle)]
pub extern "C" fn umad_method_str(mgmt_class: u8, method: u8) -> *const c_char {
    let name = if mgmt_class == SUBN_ADM { sa_method(method) } else { common_method(method) };
    name.as_ptr()
}

fn common_method(method: u8) -> &'static CStr {
    match method {
        0x01 => c"Get",
        0x02 => c"Set",
        0x81 => c"GetResp",
        0x03 => c"Send",
        0x05 => c"Trap",
        0x06 => c"Report",
        0x86 => c"ReportResp",
        0x07 => c"TrapRepress",
        // Without its closing bracket, as rdma-core has it.
        _ => c"<unknown",
    }
}

fn sa_method(method: u8) -> &'static CStr {
    match method {
        0x12 => c"GetTable",
        0x92 => c"GetTableResp",
        0x15 => c"Delete",
        0x95 => c"DeleteResp",
        0x14 => c"GetMulti",
        0x94 => c"GetMultiResp",
        0x13 => c"GetTraceTable",
        _ => common_method(method),
    }
}

/// Text for the lower half of a status.
#[unsafe(no_mangle)]
pub extern "C" fn umad_common_mad_status_str(status: __be16) -> *const c_char {
    let status = u16::from_be(status);
    let text = match (status & 0x1, status & 0x2, (status & 0x1c) >> 2) {
        (1, ..) => c"Busy",
        (_, 2, _) => c"Redirection required",
        (.., 1) => c"Bad Version",
        (.., 2) => c"Method not supported",
        (.., 3) => c"Method/Attribute combo not supported",
        (.., 7) => c"Invalid attribute/modifier field",
        _ => c"Success",
    };
    text.as_ptr()
}

/// Text for the upper half of a status of subnet administration.
#[unsafe(no_mangle)]
pub extern "C" fn umad_sa_mad_status_str(status: __be16) -> *const c_char {
    let text = match u16::from_be(status) >> 8 {
        0x00 => c"Success",
        0x01 => c"No Resources",
        0x02 => c"Request Invalid",
        0x03 => c"No Records",
        0x04 => c"Too Many Records",
        0x05 => c"Invalid GID",
        0x06 => c"Insufficient Components",
        0x07 => c"Request Denied",
        0x08 => c"Priority Suggested",
        _ => c"Undefined Error",
    };
    text.as_ptr()
}

/// Name of an attribute of subnet management, subnet administration, communication management, or of all
/// classes.
#[unsafe(no_mangle)]
pub extern "C" fn umad_attribute_str(mgmt_class: u8, attr_id: __be16) -> *const c_char {
    let attr_id = u16::from_be(attr_id);
    let name = match mgmt_class {
        SUBN | SUBN_DIRECTED_ROUTE => sm_attribute(attr_id),
        SUBN_ADM => sa_attribute(attr_id),
        CM => cm_attribute(attr_id),
        _ => common_attribute(attr_id),
    };
    name.as_ptr()
}

fn common_attribute(attr_id: u16) -> &'static CStr {
    match attr_id {
        0x0001 => c"Class Port Info",
        0x0002 => c"Notice",
        0x0003 => c"Inform Info",
        _ => UNKNOWN,
    }
}

fn sm_attribute(attr_id: u16) -> &'static CStr {
    match attr_id {
        0x0010 => c"NodeDescription",
        0x0011 => c"NodeInfo",
        0x0012 => c"SwitchInfo",
        0x0014 => c"GUIDInfo",
        0x0015 => c"PortInfo",
        0x0016 => c"P_KeyTable",
        0x0017 => c"SLtoVLMappingTable",
        0x0018 => c"VLArbitrationTable",
        0x0019 => c"LinearForwardingTable",
        0x001a => c"RandomForwardingTable",
        0x001b => c"MulticastForwardingTable",
        0x0020 => c"SMInfo",
        0x0030 => c"VendorDiag",
        0x0031 => c"LedInfo",
        0x001c => c"LinkSpeedWidthPairsTable",
        0x001d => c"VendorSpecificMadsTable",
        0x001e => c"HierarchyInfo",
        0x0032 => c"CableInfo",
        0x0033 => c"PortInfoExtended",
        _ => common_attribute(attr_id),
    }
}

fn sa_attribute(attr_id: u16) -> &'static CStr {
    match attr_id {
        0x0011 => c"NodeRecord",
        0x0012 => c"PortInfoRecord",
        0x0013 => c"SLtoVLMappingTableRecord",
        0x0014 => c"SwitchInfoRecord",
        0x0015 => c"LinearForwardingTableRecord",
        0x0016 => c"RandomForwardingTableRecord",
        0x0017 => c"MulticastForwardingTableRecord",
        0x0018 => c"SMInfoRecord",
        0x00f3 => c"InformInfoRecord",
        0x0020 => c"LinkRecord",
        0x0030 => c"GuidInfoRecord",
        0x0031 => c"ServiceRecord",
        0x0033 => c"P_KeyTableRecord",
        0x0035 => c"PathRecord",
        0x0036 => c"VLArbitrationTableRecord",
        0x0038 => c"MCMemberRecord",
        0x0039 => c"TraceRecord",
        0x003a => c"MultiPathRecord",
        0x003b => c"ServiceAssociationRecord",
        0x0019 => c"LinkSpeedWidthPairsTableRecord",
        0x003c => c"HierarchyInfoRecord",
        0x003d => c"CableInfoRecord",
        0x003e => c"PortInfoExtendedRecord",
        _ => common_attribute(attr_id),
    }
}

fn cm_attribute(attr_id: u16) -> &'static CStr {
    match attr_id {
        0x0010 => c"ConnectRequest",
        0x0011 => c"MsgRcptAck",
        0x0012 => c"ConnectReject",
        0x0013 => c"ConnectReply",
        0x0014 => c"ReadyToUse",
        0x0015 => c"DisconnectRequest",
        0x0016 => c"DisconnectReply",
        0x0017 => c"ServiceIDResReq",
        0x0018 => c"ServiceIDResReqResp",
        0x0019 => c"LoadAlternatePath",
        0x001a => c"AlternatePathResponse",
        0x001b => c"SuggestAlternatePath",
        0x001c => c"SuggestPathResponse",
        _ => common_attribute(attr_id),
    }
}
