//! Commands as a program's memory has them, and the lines that come of them.

use zerocopy::Immutable;

use super::*;

/// What is written as an answer.
pub fn shown(write: impl Fn(&mut Line)) -> String {
    // SAFETY: all zeros is a value.
    let mut line: Box<Line> = unsafe { Box::new_zeroed().assume_init() };
    line.before(&|_| {}, true);
    line.after(&|_| {}, false, &|line| write(line));
    String::from_utf8(line.answer().to_vec()).unwrap()
}

fn seen(command: u32, output: usize, body: &(impl IntoBytes + Immutable)) -> Seen {
    let body = body.as_bytes();
    let header = layout::Header { command, input: body.len() as u16, output: output as u16 };
    let whole = [header.as_bytes(), body].concat();
    super::super::begun(7, whole.as_ptr() as u64, whole.len(), false)
}

/// The line of a command, with objects as `kind number`.
fn line(seen: &Seen, failed: Option<i32>) -> String {
    // SAFETY: all zeros is a value.
    let mut line: Box<Line> = unsafe { Box::new_zeroed().assume_init() };
    let arguments = |line: &mut Line| show(seen, failed, line);
    line.before(&arguments, true);
    line.after(&arguments, failed.is_some(), &|line| answer(seen, line));
    let text = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec()).unwrap().replace('\x1f', ", ").replace(['\x02', '\x03'], "")
    };
    format!("{}({}){}", name(seen), text(line.arguments()), text(line.answer()))
}

#[test]
fn what_a_command_makes_is_read_from_where_it_is_stored() {
    let made = layout::Created { id: 3 };
    let mut create = layout::CreateId::new_zeroed();
    (create.uid, create.response, create.ps, create.qp_type) = (0xabc, &raw const made as u64, 0x0106, 2);
    assert_eq!(
        line(&seen(0, 4, &create), None),
        "rdma_create_id(channel={fd=7}, id=[id 4], uid=0xabc, ps=RDMA_PS_TCP, qp_type=RC)"
    );
    let text = line(&seen(0, 4, &create), Some(libc::EMFILE));
    assert!(text.contains(&format!("id={:#x}, ", create.response)), "{text}");
    // Nothing is stored where there was no room, and nothing is read there.
    assert!(line(&seen(0, 0, &create), None).contains("id=[id 1]"));
    create.response = 8;
    assert!(line(&seen(0, 4, &create), None).contains("id=[id 1]"));
}

#[test]
fn addresses_stand_as_people_write_them() {
    let mut bind = layout::Bind::new_zeroed();
    let (storage, size) = addresses::write(&Address::V4("192.0.2.1:7471".parse().unwrap()));
    (bind.id, bind.addr_size, bind.address) = (1, size, storage);
    assert_eq!(line(&seen(20, 0, &bind), None), "rdma_bind_addr(id=id 2, addr=192.0.2.1:7471)");
    let mut resolve = layout::ResolveAddr::new_zeroed();
    resolve.destination = addresses::write(&Address::V6("[2001:db8::1]:18515".parse().unwrap())).0;
    resolve.timeout_ms = 2000;
    assert_eq!(
        line(&seen(21, 0, &resolve), None),
        "rdma_resolve_addr(id=id 1, src_addr=NULL, dst_addr=[2001:db8::1]:18515, timeout_ms=2000)"
    );
}

#[test]
fn an_event_says_what_happened() {
    let mut event = layout::Event::new_zeroed();
    (event.id, event.event, event.status) = (2, 8, 8);
    let get = layout::GetEvent { response: &raw const event as u64 };
    assert_eq!(
        line(&seen(12, size_of::<layout::Event>(), &get), None),
        "rdma_get_cm_event(channel={fd=7}, event=[{event=RDMA_CM_EVENT_REJECTED, id=id 3, status=8 (invalid \
         service ID)}])"
    );
    let param = layout::ConnParam { qp_num: 0x11, initiator_depth: 4, ..layout::ConnParam::new_zeroed() };
    (event.event, event.status) = (9, 0);
    event.param[..param.as_bytes().len()].copy_from_slice(param.as_bytes());
    let text = line(&seen(12, size_of::<layout::Event>(), &get), None);
    assert!(
        text.contains("ESTABLISHED, id=id 3, status=0, param={responder_resources=0, initiator_depth=4, ")
    );
}

#[test]
fn every_number_and_any_bytes_give_a_line() {
    for command in 0..30 {
        for byte in [0_u8, 1, 0x7f, 0xff] {
            let text = line(&seen(command, 0xffff, &[byte; LONGEST]), None);
            assert!(
                text.starts_with(if command == 13 || command > 24 { "write(" } else { "rdma_" }),
                "{text}"
            );
        }
    }
    let none = super::super::begun(7, 0, 100, false);
    assert_eq!(line(&none, None), "write(channel={fd=7}, command=0, in=0, out=0, length=100)");
}

const LONGEST: usize = size_of::<layout::WriteEvent>();
