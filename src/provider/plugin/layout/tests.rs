//! Layouts against offsets that a C compiler gave for each release's `driver.h`.

use super::*;
use core::mem::MaybeUninit;

/// Every operation with its offset in release 33, 36 to 58, 59 to 61, 62 and 63, 64 and 65; -1 where it was
/// not.
const OFFSETS: [(&str, [isize; 6]); 93] = [
    ("advise_mr", [0, 0, 0, 0, 0, 0]),
    ("alloc_buf", [-1, -1, -1, -1, 8, 8]),
    ("alloc_dm", [8, 8, 8, 8, 16, 16]),
    ("alloc_dmah", [-1, -1, 16, 16, 24, 24]),
    ("alloc_mw", [16, 16, 24, 24, 32, 32]),
    ("alloc_null_mr", [24, 24, 32, 32, 40, 40]),
    ("alloc_parent_domain", [32, 32, 40, 40, 48, 48]),
    ("alloc_pd", [40, 40, 48, 48, 56, 56]),
    ("alloc_td", [48, 48, 56, 56, 64, 64]),
    ("async_event", [56, 56, 64, 64, 72, 72]),
    ("attach_counters_point_flow", [64, 64, 72, 72, 80, 80]),
    ("attach_mcast", [72, 72, 80, 80, 88, 88]),
    ("bind_mw", [80, 80, 88, 88, 96, 96]),
    ("close_xrcd", [88, 88, 96, 96, 104, 104]),
    ("cq_event", [96, 96, 104, 104, 112, 112]),
    ("create_ah", [104, 104, 112, 112, 120, 120]),
    ("create_comp_cntr", [-1, -1, -1, -1, -1, 128]),
    ("create_counters", [112, 112, 120, 120, 128, 136]),
    ("create_cq", [120, 120, 128, 128, 136, 144]),
    ("create_cq_ex", [128, 128, 136, 136, 144, 152]),
    ("create_flow", [136, 136, 144, 144, 152, 160]),
    ("create_flow_action_esp", [144, 144, 152, 152, 160, 168]),
    ("create_qp", [152, 152, 160, 160, 168, 176]),
    ("create_qp_ex", [160, 160, 168, 168, 176, 184]),
    ("create_rwq_ind_table", [168, 168, 176, 176, 184, 192]),
    ("create_srq", [176, 176, 184, 184, 192, 200]),
    ("create_srq_ex", [184, 184, 192, 192, 200, 208]),
    ("create_wq", [192, 192, 200, 200, 208, 216]),
    ("dealloc_dmah", [-1, -1, 208, 208, 216, 224]),
    ("dealloc_mw", [200, 200, 216, 216, 224, 232]),
    ("dealloc_pd", [208, 208, 224, 224, 232, 240]),
    ("dealloc_td", [216, 216, 232, 232, 240, 248]),
    ("dereg_mr", [224, 224, 240, 240, 248, 256]),
    ("destroy_ah", [232, 232, 248, 248, 256, 264]),
    ("destroy_comp_cntr", [-1, -1, -1, -1, -1, 272]),
    ("destroy_counters", [240, 240, 256, 256, 264, 280]),
    ("destroy_cq", [248, 248, 264, 264, 272, 288]),
    ("destroy_flow", [256, 256, 272, 272, 280, 296]),
    ("destroy_flow_action", [264, 264, 280, 280, 288, 304]),
    ("destroy_qp", [272, 272, 288, 288, 296, 312]),
    ("destroy_rwq_ind_table", [280, 280, 296, 296, 304, 320]),
    ("destroy_srq", [288, 288, 304, 304, 312, 328]),
    ("destroy_wq", [296, 296, 312, 312, 320, 336]),
    ("detach_mcast", [304, 304, 320, 320, 328, 344]),
    ("dm_export_dmabuf_fd", [-1, -1, -1, 328, 336, 352]),
    ("free_buf", [-1, -1, -1, -1, 344, 360]),
    ("free_context", [312, 312, 328, 336, 352, 368]),
    ("free_dm", [320, 320, 336, 344, 360, 376]),
    ("get_srq_num", [328, 328, 344, 352, 368, 384]),
    ("import_dm", [-1, 336, 352, 360, 376, 392]),
    ("import_mr", [336, 344, 360, 368, 384, 400]),
    ("import_pd", [344, 352, 368, 376, 392, 408]),
    ("inc_comp_cntr", [-1, -1, -1, -1, -1, 416]),
    ("inc_err_comp_cntr", [-1, -1, -1, -1, -1, 424]),
    ("modify_cq", [352, 360, 376, 384, 400, 432]),
    ("modify_flow_action_esp", [360, 368, 384, 392, 408, 440]),
    ("modify_qp", [368, 376, 392, 400, 416, 448]),
    ("modify_qp_rate_limit", [376, 384, 400, 408, 424, 456]),
    ("modify_srq", [384, 392, 408, 416, 432, 464]),
    ("modify_wq", [392, 400, 416, 424, 440, 472]),
    ("open_qp", [400, 408, 424, 432, 448, 480]),
    ("open_xrcd", [408, 416, 432, 440, 456, 488]),
    ("poll_cq", [416, 424, 440, 448, 464, 496]),
    ("post_recv", [424, 432, 448, 456, 472, 504]),
    ("post_send", [432, 440, 456, 464, 480, 512]),
    ("post_srq_ops", [440, 448, 464, 472, 488, 520]),
    ("post_srq_recv", [448, 456, 472, 480, 496, 528]),
    ("qp_attach_comp_cntr", [-1, -1, -1, -1, -1, 536]),
    ("query_comp_cntr_caps", [-1, -1, -1, -1, -1, 544]),
    ("query_device_ex", [456, 464, 480, 488, 504, 552]),
    ("query_ece", [464, 472, 488, 496, 512, 560]),
    ("query_port", [472, 480, 496, 504, 520, 568]),
    ("query_port_speed", [-1, -1, -1, 512, 528, 576]),
    ("query_qp", [480, 488, 504, 520, 536, 584]),
    ("query_qp_data_in_order", [-1, 496, 512, 528, 544, 592]),
    ("query_rt_values", [488, 504, 520, 536, 552, 600]),
    ("query_srq", [496, 512, 528, 544, 560, 608]),
    ("read_comp_cntr", [-1, -1, -1, -1, -1, 616]),
    ("read_counters", [504, 520, 536, 552, 568, 624]),
    ("read_err_comp_cntr", [-1, -1, -1, -1, -1, 632]),
    ("reg_dm_mr", [512, 528, 544, 560, 576, 640]),
    ("reg_dmabuf_mr", [-1, 536, 552, 568, 584, 648]),
    ("reg_mr", [520, 544, 560, 576, 592, 656]),
    ("reg_mr_ex", [-1, -1, 568, 584, 600, 664]),
    ("req_notify_cq", [528, 552, 576, 592, 608, 672]),
    ("rereg_mr", [536, 560, 584, 600, 616, 680]),
    ("resize_cq", [544, 568, 592, 608, 624, 688]),
    ("set_comp_cntr", [-1, -1, -1, -1, -1, 696]),
    ("set_ece", [552, 576, 600, 616, 632, 704]),
    ("set_err_comp_cntr", [-1, -1, -1, -1, -1, 712]),
    ("unimport_dm", [-1, 584, 608, 624, 640, 720]),
    ("unimport_mr", [560, 592, 616, 632, 648, 728]),
    ("unimport_pd", [568, 600, 624, 640, 656, 736]),
];

/// Which column is that of a layout.
fn column(layout: &Layout) -> usize {
    [33, 36, 59, 62, 64, 65]
        .iter()
        .position(|release| *release == layout.operations)
        .expect("a measured release")
}

/// Sizes of `verbs_context` in the order of [`LAYOUTS`], and the three places of a `verbs_qp`'s mask, as C
/// compilers have them for each architecture: a mutex has 40 bytes on x86-64 and 48 on aarch64.
#[cfg(target_arch = "x86_64")]
const MEASURED: ([usize; 7], [usize; 3]) = ([648, 648, 648, 672, 680, 696, 696], [344, 352, 360]);
#[cfg(target_arch = "aarch64")]
const MEASURED: ([usize; 7], [usize; 3]) = ([656, 656, 656, 680, 688, 704, 704], [352, 360, 368]);

#[test]
fn structs_have_the_sizes_that_c_gives_them() {
    assert_eq!(LAYOUTS.each_ref().map(|layout| layout.context_size), MEASURED.0);
    assert_eq!(LAYOUTS[0].qp_masks, [MEASURED.1[0]]);
    assert_eq!(LAYOUTS[1].qp_masks, MEASURED.1);
    for layout in &LAYOUTS[2..] {
        assert_eq!(layout.qp_masks, [MEASURED.1[2]]);
    }
}

#[test]
fn operations_stand_where_c_has_them() {
    for layout in &LAYOUTS {
        let column = column(layout);
        let mut expected: Vec<_> = OFFSETS
            .iter()
            .filter(|row| row.1[column] >= 0)
            .map(|row| (row.1[column] as usize, row.0))
            .collect();
        expected.sort_unstable();
        let found: Vec<_> =
            operations(layout).into_iter().enumerate().map(|(place, name)| (place * WORD, name)).collect();
        assert_eq!(found, expected, "{layout:?}");
    }
}

#[test]
fn every_operation_comes_to_its_place() {
    for layout in &LAYOUTS {
        let column = column(layout);
        // As long as the plugin's table, so that Miri or a sanitizer sees a word read too many.
        let given: Box<[usize]> = (0..operations(layout).len()).map(|slot| 0x10000 + slot * WORD).collect();
        let table = NonNull::from(&*given).cast();
        // SAFETY: words in the place of function pointers, which nobody calls.
        let newest = unsafe { newest(layout, table) };
        // SAFETY: a table of words, which it is borrowed for.
        let words: &[usize] =
            unsafe { core::slice::from_raw_parts((&raw const newest).cast(), size_of_val(&newest) / WORD) };
        for (name, offsets) in OFFSETS {
            let expected = if offsets[column] < 0 { 0 } else { 0x10000 + offsets[column] as usize };
            assert_eq!(words[offsets[5] as usize / WORD], expected, "{name} of {layout:?}");
        }
    }
}

/// Room of a context of 100 words with the size mark of a `verbs_context` of `size` bytes that starts it.
fn marked(size: usize) -> [usize; 100] {
    let mut words = [0x7f00_0000_0000; 100];
    words[(size - size_of::<ibv_context>() - SIZE_BEFORE) / WORD] = size;
    words
}

#[test]
fn a_context_of_any_layout_is_known_by_its_size() {
    assert!(LAYOUTS.is_sorted_by_key(|layout| layout.context_size));
    for layout in &LAYOUTS {
        let words = marked(layout.context_size);
        let verbs = NonNull::from(&words).cast::<verbs_context>();
        // SAFETY: as many words as the longest context has.
        let context = unsafe { of_any_size(verbs) }.expect("it has a mark");
        assert_eq!(context.addr().get() - verbs.addr().get(), layout.context_size - size_of::<ibv_context>());
    }
    let none = MaybeUninit::new([0_usize; 100]);
    // SAFETY: as above.
    assert!(unsafe { of_any_size(NonNull::from(&none).cast()) }.is_none());
}

#[test]
fn a_release_that_nothing_tells_is_refused_with_what_was_found() {
    let of = |generation, driver, size| of_context(Generation(generation), driver, size);
    assert_eq!(of(34, RDMA_DRIVER_MLX5, 1).map(|layout| layout.context_size), Ok(LAYOUTS[1].context_size));
    assert_eq!(of(65, 0, 1).map(|layout| layout.context_size), Ok(LAYOUTS[6].context_size));
    // What C gives for efa's context in 59 and 61, 62, and 63, and for the one of mlx5 over VFIO.
    let (efa, vfio) =
        if cfg!(target_arch = "aarch64") { ([752, 760, 776], 47_872) } else { ([744, 752, 768], 47_584) };
    for (size, operations) in efa.into_iter().zip([59, 62, 62]) {
        assert_eq!(of(59, RDMA_DRIVER_EFA, size).map(|layout| layout.operations), Ok(operations), "{size}");
    }
    assert_eq!(of(59, RDMA_DRIVER_UNKNOWN, vfio).map(|layout| layout.operations), Ok(59));
    assert_eq!(of(59, RDMA_DRIVER_UNKNOWN, vfio + WORD).map(|layout| layout.operations), Ok(62));
    for (driver, size) in [(RDMA_DRIVER_EFA, efa[1] + 8), (RDMA_DRIVER_RXE, 744), (RDMA_DRIVER_USNIC, 672)] {
        let said = of(59, driver, size).expect_err("nobody's size");
        assert!(
            said.contains(&format!("driver {driver}")) && said.contains(&format!("{size} bytes")),
            "{said}"
        );
        assert!(said.contains("rdma-core 59 to 6"), "{said}");
    }
    assert!(of(58, RDMA_DRIVER_EFA, 744).is_err());
}

#[test]
fn sizes_of_the_two_layouts_of_59_are_apart() {
    for (driver, first, second) in SIZES_OF_59 {
        assert!(first.iter().all(|size| !second.contains(size)), "{driver}");
        assert_eq!(SIZES_OF_59.iter().filter(|row| row.0 == *driver).count(), 1);
        // The struct grew by one operation.
        assert!(first.iter().all(|size| second.contains(&(size + WORD))), "{driver}");
    }
}

#[test]
fn every_version_that_files_are_looked_for_in_has_a_layout() {
    let mut generations: Vec<u32> = LAYOUTS.iter().rev().map(|layout| layout.generation.0).collect();
    generations.dedup();
    assert_eq!(generations, super::super::places::GENERATIONS);
}
