//! Every function is defined with the signature that `umad.h` is generated from; a difference stops the
//! compilation.

use crate::abi::{prototypes as declared, umad_str};

/// Types of a function in which a thread may be cancelled, which unwinds through it, and of its declaration in
/// C.
macro_rules! same {
    ($name:ident, $($argument:ident)*) => {
        const fn $name<$($argument,)* R>(
            _: unsafe extern "C-unwind" fn($($argument),*) -> R,
            _: unsafe extern "C" fn($($argument),*) -> R,
        ) {
        }
    };
}
same!(same_of_two, A B);
same!(same_of_four, A B C D);
same!(same_of_six, A B C D E F);

/// Definition and declaration of each are elements of one array, so of one function pointer type.
const _: () = {
    same_of_two(super::umad_poll::umad_poll, declared::umad_poll);
    same_of_four(super::umad_recv::umad_recv, declared::umad_recv);
    same_of_six(super::umad_send::umad_send, declared::umad_send);
    let _: [unsafe extern "C" fn() -> _; 2] = [super::umad_init::umad_init, declared::umad_init];
    let _: [unsafe extern "C" fn() -> _; 2] = [super::umad_init::umad_done, declared::umad_done];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::umad_get_cas_names::umad_get_cas_names, declared::umad_get_cas_names];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [super::umad_get_ca_portguids::umad_get_ca_portguids, declared::umad_get_ca_portguids];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::umad_get_ca::umad_get_ca, declared::umad_get_ca];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::umad_get_ca::umad_release_ca, declared::umad_release_ca];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [super::umad_get_port::umad_get_port, declared::umad_get_port];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::umad_get_port::umad_release_port, declared::umad_release_port];
    let _: [unsafe extern "C" fn(_, _, _, _) -> _; 2] =
        [super::umad_get_issm_path::umad_get_issm_path, declared::umad_get_issm_path];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::umad_open_port::umad_open_port, declared::umad_open_port];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::umad_open_smi_port::umad_open_smi_port, declared::umad_open_smi_port];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::umad_close_port::umad_close_port, declared::umad_close_port];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::umad_get_mad::umad_get_mad, declared::umad_get_mad];
    let _: [unsafe extern "C" fn() -> _; 2] = [super::umad_size::umad_size, declared::umad_size];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::umad_status::umad_status, declared::umad_status];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::umad_get_mad_addr::umad_get_mad_addr, declared::umad_get_mad_addr];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] = [super::umad_set_grh::umad_set_grh, declared::umad_set_grh];
    let _: [unsafe extern "C" fn(_, _, _, _, _) -> _; 2] =
        [super::umad_set_addr_net::umad_set_addr_net, declared::umad_set_addr_net];
    let _: [unsafe extern "C" fn(_, _, _, _, _) -> _; 2] =
        [super::umad_set_addr::umad_set_addr, declared::umad_set_addr];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::umad_set_pkey::umad_set_pkey, declared::umad_set_pkey];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::umad_get_pkey::umad_get_pkey, declared::umad_get_pkey];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::umad_get_fd::umad_get_fd, declared::umad_get_fd];
    let _: [unsafe extern "C" fn(_, _, _, _, _) -> _; 2] =
        [super::umad_register::umad_register, declared::umad_register];
    let _: [unsafe extern "C" fn(_, _, _, _, _) -> _; 2] =
        [super::umad_register_oui::umad_register_oui, declared::umad_register_oui];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::umad_unregister::umad_unregister, declared::umad_unregister];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::umad_sort_ca_device_list::umad_sort_ca_device_list, declared::umad_sort_ca_device_list];
    let _: [unsafe extern "C" fn() -> _; 2] =
        [super::umad_get_ca_device_list::umad_get_ca_device_list, declared::umad_get_ca_device_list];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::umad_free_ca_device_list::umad_free_ca_device_list, declared::umad_free_ca_device_list];
    let _: [unsafe extern "C" fn(_, _, _) -> _; 2] =
        [super::umad_register2::umad_register2, declared::umad_register2];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::umad_debug::umad_debug, declared::umad_debug];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::umad_addr_dump::umad_addr_dump, declared::umad_addr_dump];
    let _: [unsafe extern "C" fn(_) -> _; 2] = [super::umad_dump::umad_dump, declared::umad_dump];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::umad_get_smi_gsi_pairs::umad_get_smi_gsi_pairs, declared::umad_get_smi_gsi_pairs];
    let _: [unsafe extern "C" fn(_, _, _, _) -> _; 2] = [
        super::umad_get_smi_gsi_pair_by_ca_name::umad_get_smi_gsi_pair_by_ca_name,
        declared::umad_get_smi_gsi_pair_by_ca_name,
    ];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::umad_class_str::umad_class_str, umad_str::umad_class_str];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::umad_class_str::umad_method_str, umad_str::umad_method_str];
    let _: [unsafe extern "C" fn(_, _) -> _; 2] =
        [super::umad_class_str::umad_attribute_str, umad_str::umad_attribute_str];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::umad_class_str::umad_common_mad_status_str, umad_str::umad_common_mad_status_str];
    let _: [unsafe extern "C" fn(_) -> _; 2] =
        [super::umad_class_str::umad_sa_mad_status_str, umad_str::umad_sa_mad_status_str];
};
