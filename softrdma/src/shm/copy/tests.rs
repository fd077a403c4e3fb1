use super::super::segment::{AT_SEALED, Segment};
use super::super::testing::{TestDir, in_child, memory_of};
use super::*;
use proptest::prelude::*;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

fn me() -> libc::pid_t {
    // SAFETY: reads a number of the process.
    unsafe { libc::getpid() }
}

fn span(bytes: &mut [u8]) -> Span {
    Span { addr: bytes.as_mut_ptr() as u64, len: bytes.len() as u64 }
}

fn cut(mut whole: Span, lens: &[u64]) -> Vec<Span> {
    let mut spans = Vec::new();
    for &len in lens {
        let len = len.min(whole.len);
        spans.push(Span { addr: whole.addr, len });
        whole = Span { addr: whole.addr + len, len: whole.len - len };
    }
    spans.push(whole);
    spans
}

proptest! {
    #[test]
    fn scatter_and_gather(
        cuts in proptest::collection::vec(0u64..40, 0..80),
        other in proptest::collection::vec(0u64..40, 0..80),
        read in any::<bool>(),
    ) {
        let mut from: Vec<u8> = (0..1000u32).map(|i| ((i * 7) >> 2) as u8).collect();
        let expected = from.clone();
        let mut to = vec![0; 1000];
        let (a, b) = (cut(span(&mut from), &cuts), cut(span(&mut to), &other));
        // SAFETY: the ranges are the two vectors, which nobody else looks at meanwhile.
        let r = unsafe {
            let own = Image::own();
            if read {
                transfer(&own, Direction::Read, &b, &a)
            } else {
                transfer(&own, Direction::Write, &a, &b)
            }
        };
        prop_assert_eq!(r, Ok(()));
        prop_assert_eq!(to, expected);
    }
}

/// Every list of up to three ranges with lengths at which numbers end, walked by every step: the bytes
/// named are those of the list, each once and in order.
#[test]
fn a_cursor_names_each_byte_once() {
    let lengths = [0, 1, 8, 1 << 32, CALL_LIMIT - 1, CALL_LIMIT, CALL_LIMIT + 1, 1 << 61];
    let limits = [0, 1, 7, 8, 9, 1 << 32, CALL_LIMIT, u64::MAX];
    let lists = lengths.iter().flat_map(|a| lengths.iter().flat_map(move |b| lengths.map(|c| [*a, *b, c])));
    for lens in lists {
        // Ranges far from each other, so that an address says which one it is in. The last one ends with
        // all addresses.
        let starts = [0, 1 << 62, u64::MAX - lens[2]];
        let spans = [0, 1, 2].map(|i| Span { addr: starts[i], len: lens[i] });
        let total: u64 = lens.iter().sum();
        for (limit, room) in limits.iter().flat_map(|limit| [1usize, 2, 4].map(|room| (*limit, room))) {
            let mut cursor = Cursor::new(&spans);
            let mut done = 0u64;
            for _ in 0..8 {
                let mut to = [NO_RANGE; 4];
                let (count, bytes) = cursor.fill(&mut to[..room], limit);
                assert!(count <= room && bytes <= limit && bytes <= total - done);
                // A full list or all that there is, but for the limit.
                assert!(bytes == limit || bytes == total - done || count == room, "{lens:?} {limit} {room}");
                let mut at = done;
                for range in &to[..count] {
                    let (mut i, mut skip) = (0, at);
                    while skip >= lens[i] {
                        (skip, i) = (skip - lens[i], i + 1);
                    }
                    assert_eq!(range.iov_base as u64, starts[i].wrapping_add(skip));
                    assert!(range.iov_len > 0 && range.iov_len as u64 <= lens[i] - skip);
                    at += range.iov_len as u64;
                }
                assert_eq!(at, done + bytes);
                // The kernel may have moved less than it was asked for.
                let moved = if done.is_multiple_of(2) { bytes } else { bytes.div_ceil(2) };
                cursor.advance(moved);
                done += moved;
            }
        }
    }
}

#[test]
fn the_shorter_list_ends_it() {
    let (mut a, mut b) = (vec![1u8; 100], vec![0u8; 60]);
    // SAFETY: as above.
    unsafe { transfer(&Image::own(), Direction::Write, &[span(&mut a)], &[span(&mut b)]) }.unwrap();
    assert_eq!(b, [1; 60]);
    let mut c = vec![0u8; 200];
    // SAFETY: as above.
    unsafe { transfer(&Image::own(), Direction::Write, &[span(&mut a)], &[span(&mut c)]) }.unwrap();
    assert!(c[..100] == [1; 100] && c[100..] == [0; 100]);
    // SAFETY: moves nothing.
    assert_eq!(unsafe { transfer(&Image::own(), Direction::Write, &[], &[span(&mut c)]) }, Ok(()));
    let nobody = Image::of_peer(-1, 0, 0);
    // SAFETY: moves nothing, so the process is not even looked for.
    let r = unsafe { transfer(&nobody, Direction::Write, &[span(&mut a[..0])], &[span(&mut c)]) };
    assert_eq!(r, Ok(()));
}

/// A page with nothing behind it.
fn edge() -> (*mut u8, u64) {
    // SAFETY: a new mapping at an address of the kernel's choice; its second page is closed.
    unsafe {
        let p = libc::mmap(
            std::ptr::null_mut(),
            8192,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(p, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(p.byte_add(4096), 4096, libc::PROT_NONE), 0);
        (p.cast(), p as u64)
    }
}

#[test]
fn whose_memory_failed() {
    let dir = TestDir::new("fault");
    let a = Segment::create(dir.folder()).unwrap();
    let peer = Peer::open(a.folder(), a.owner().slot()).unwrap();
    for image in [Image::own(), peer.image().unwrap()] {
        failures(&image);
    }
}

fn failures(image: &Image) {
    let (page, at) = edge();
    let bad = [Span { addr: at + 4000, len: 200 }];
    let mut buffer = vec![7u8; 200];
    let good = [span(&mut buffer)];
    let unmapped = [Span { addr: 8, len: 200 }];
    let outside = [Span { addr: u64::MAX - 100, len: 200 }];
    for bad in [&bad, &unmapped, &outside] {
        // SAFETY: what is written is `buffer` or the beginning of `page`.
        unsafe {
            assert_eq!(transfer(image, Direction::Write, &good, bad), Err(Fault::Remote));
            assert_eq!(transfer(image, Direction::Read, &good, bad), Err(Fault::Remote));
            assert_eq!(transfer(image, Direction::Write, bad, &good), Err(Fault::Local));
            assert_eq!(transfer(image, Direction::Read, bad, &good), Err(Fault::Local));
        }
    }
    // Memory that may be read but not written.
    // SAFETY: the page is ours; reading it is what the test does.
    unsafe {
        assert_eq!(libc::mprotect(page.cast(), 4096, libc::PROT_READ), 0);
        let page = [Span { addr: at, len: 200 }];
        assert_eq!(transfer(image, Direction::Write, &page, &good), Ok(()));
        assert_eq!(transfer(image, Direction::Write, &good, &page), Err(Fault::Remote));
        assert_eq!(transfer(image, Direction::Read, &page, &good), Err(Fault::Local));
        libc::munmap(at as *mut libc::c_void, 8192);
    }
}

#[test]
fn no_such_process() {
    let mut a = [0u8; 8];
    let s = [span(&mut a)];
    let nobody = Image::of_peer(i32::MAX, 0, 0);
    // SAFETY: there is no process to read from or write to.
    assert_eq!(unsafe { transfer(&nobody, Direction::Write, &s, &s) }, Err(Fault::Gone));
}

#[test]
fn probing() {
    let dir = TestDir::new("probe");
    let a = Segment::create(dir.folder()).unwrap();
    let number = a.memory().u64(AT_SEALED).unwrap();
    let open = || Peer::open(a.folder(), a.owner().slot()).unwrap();
    let image = open().image().unwrap();
    assert_eq!(image.pid, me());
    assert_eq!(probe(&open()), Ok(Way::Direct(image)));
    // A memfd of this process that another one may have made, and what else a descriptor may mean.
    let honest = number.load(Ordering::Relaxed);
    let foreign = memory_of(&[0; 8192]).1;
    let pipe = std::io::pipe().unwrap();
    let lies = [foreign.as_raw_fd(), pipe.0.as_raw_fd(), -1, i32::MAX - 1].map(|fd| (fd + 1) as u64);
    for lie in lies.into_iter().chain([u64::MAX]) {
        number.store(lie, Ordering::Relaxed);
        assert_eq!((open().image(), probe(&open())), (None, Ok(Way::Closed(0))));
    }
    number.store(honest, Ordering::Relaxed);
    assert_eq!(probe(&open()), Ok(Way::Direct(image)));
}

/// Rows of the module's table that need no Yama. Needs to be root, who can become somebody else.
#[test]
#[ignore = "needs root"]
fn who_may() {
    let mut buffer = vec![0u8; 8];
    let there = [span(&mut buffer)];
    // SAFETY: the child only changes itself; what is overwritten is its copy of `buffer`.
    let status = in_child(|| unsafe {
        let drop_to = |id: u32| libc::setresgid(id, id, id) == 0 && libc::setresuid(id, id, id) == 0;
        let target = |dumpable: libc::c_ulong| {
            let mut ready = [0; 2];
            assert_eq!(libc::pipe(ready.as_mut_ptr()), 0);
            let pid = libc::fork();
            if pid == 0 {
                libc::prctl(libc::PR_SET_DUMPABLE, dumpable);
                // The first target belongs to root, whom the others cannot end.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::alarm(300);
                libc::write(ready[1], [0u8].as_ptr().cast(), 1);
                libc::pause();
                libc::_exit(0);
            }
            // It has changed itself.
            assert_eq!(libc::read(ready[0], [0u8].as_mut_ptr().cast(), 1), 1);
            pid
        };
        let roots = target(1);
        if !drop_to(65534) {
            return false;
        }
        // Changing ids made this process not dumpable, and children inherit that.
        libc::prctl(libc::PR_SET_DUMPABLE, 1);
        let (open, closed) = (target(1), target(0));
        let mut mine = [0u8; 8];
        let here = [span(&mut mine)];
        let answers = [roots, open, closed]
            .map(|pid| transfer(&Image::of_peer(pid, 0, 0), Direction::Read, &here, &there));
        for pid in [open, closed] {
            libc::kill(pid, libc::SIGKILL);
        }
        answers == [Err(Fault::Denied), Ok(()), Err(Fault::Denied)]
    });
    assert_eq!(status, 0);
}
