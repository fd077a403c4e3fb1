//! Peers that die, or write what they like.

use std::io::{Read, Write};

use softrdma::rules::request::Operands;
use softrdma::rules::requester::Outcome;
use softrdma::rules::verbs::{Opcode, QpType};
use softrdma_testing::raw_qp::{Dir, RawQp};

#[test]
fn a_dead_peer_gives_no_answer_and_its_successor_is_a_stranger() {
    let dir = Dir::new("dead");
    let me = dir.endpoint();
    let mut a = RawQp::new(&me, QpType::Rc);
    let mut datagrams = RawQp::new(&me, QpType::Ud);
    let grh = [0; 40];
    let (here, small) = ([a.sge(0, 8)], [datagrams.sge(0, 8)]);
    let mut before = None;
    for round in 0..2 {
        let (mut numbers, mut told) = std::io::pipe().unwrap();
        // SAFETY: the child uses what it makes itself, ends by a signal, and runs nothing that belongs to the
        // parent.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            let other = dir.endpoint();
            let mut b = RawQp::new(&other, QpType::Rc);
            let mut d = RawQp::new(&other, QpType::Ud);
            b.connect(a.number());
            b.receive(1, &[b.sge(0, 8)]);
            d.receive(1, &[d.sge(0, 48)]);
            let both = u64::from(b.number()) << 32 | u64::from(d.number());
            told.write_all(&both.to_ne_bytes()).unwrap();
            loop {
                // SAFETY: sleeps until a signal.
                unsafe { libc::pause() };
            }
        }
        drop(told);
        let mut both = [0; 8];
        numbers.read_exact(&mut both).unwrap();
        let both = u64::from_ne_bytes(both);
        assert!(before.is_none_or(|before| before == both), "the same numbers");
        before = Some(both);
        if round == 0 {
            a.connect((both >> 32) as u32);
        }
        let expected = if round == 0 { Outcome::Done(8) } else { Outcome::NoAnswer };
        assert_eq!(a.send(&here), expected, "round {round}");
        let datagram = RawQp::datagram(both as u32, &grh, &small);
        assert_eq!(datagrams.execute(&datagram), Outcome::Done(8));
        // SAFETY: the process is our child; its status is not wanted.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
        // The process id is believed for a moment.
        std::thread::sleep(std::time::Duration::from_millis(120));
        assert_eq!(datagrams.execute(&datagram), Outcome::NoAnswer);
        assert_eq!(a.send(&here), Outcome::NoAnswer);
    }
}

/// A peer that writes anything anywhere in its segment harms itself: requests end, one way or another.
#[test]
fn a_vandal_harms_nobody_else() {
    let dir = Dir::new("vandal");
    let me = dir.endpoint();
    let mut ends = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcSend].map(|kind| RawQp::new(&me, kind));
    let numbers = [0, 1, 2, 3].map(|index: usize| ends[index].number());
    let (mut answers, mut rounds) = (0u32, 0u64);
    // Whoever gets a processor late may meet a segment of which nothing is left.
    while rounds < 16 || (answers == 0 && rounds < 1000) {
        rounds += 1;
        let (mut told, mut tell) = std::io::pipe().unwrap();
        // SAFETY: as in the test above.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // What it forged is waited for at most until then.
            // SAFETY: a plain system call.
            unsafe { libc::alarm(20) };
            let other = dir.endpoint();
            let kinds = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcRecv];
            let mut targets = kinds.map(|kind| RawQp::new(&other, kind));
            for (target, number) in targets.iter_mut().zip(numbers) {
                target.connect(number);
                target.receive(1, &[target.sge(0, 5000)]);
            }
            let words: Vec<u32> = targets.iter().flat_map(|target| [target.number(), target.key]).collect();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            tell.write_all(&bytes).unwrap();
            let mut random = rounds;
            let memory = other.segment.memory();
            loop {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let place = 4096 + 8 * ((random >> 33) % (memory.len() as u64 / 8 - 512));
                let Ok(word) = memory.u64(place) else { continue };
                let was = word.load(std::sync::atomic::Ordering::Relaxed);
                let lie = match random >> 20 & 7 {
                    0 => 0,
                    1 => u64::MAX,
                    2 => random,
                    3 => was ^ 1 << (random >> 50 & 63),
                    4 => was.wrapping_add(1),
                    5 => random & 0xff,
                    _ => was,
                };
                word.store(lie, std::sync::atomic::Ordering::Relaxed);
            }
        }
        drop(tell);
        let mut bytes = [0; 32];
        told.read_exact(&mut bytes).unwrap();
        let words: Vec<u32> = bytes.chunks(4).map(|b| u32::from_ne_bytes(b.try_into().unwrap())).collect();
        let grh = [0; 40];
        for turn in 0..300u32 {
            let which = (turn % 4) as usize;
            let (to, rkey) = (words[2 * which], words[2 * which + 1]);
            let end = &mut ends[which];
            if turn < 4 {
                end.connect(to);
            }
            let length = [8, 300, 5000][(turn / 4 % 3) as usize].min(if which == 2 { 4096 } else { 5000 });
            let here = [end.sge(0, length)];
            let addr = end.at(0);
            let opcode = [Opcode::Send, Opcode::RdmaWriteWithImm, Opcode::Send][(turn / 12 % 3) as usize];
            let mut wr = RawQp::wr(opcode, &here, Operands::Remote { addr, rkey, length: 0 });
            if opcode == Opcode::Send || which == 2 {
                wr = RawQp::wr(Opcode::Send, &here, Operands::None);
            }
            if which == 2 {
                wr = RawQp::datagram(to, &grh, &here);
            }
            wr.srq_num = to;
            answers += u32::from(end.execute(&wr) != Outcome::NoAnswer);
        }
        // SAFETY: the process is our child; its status is not wanted.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
        std::thread::sleep(std::time::Duration::from_millis(110));
    }
    assert!(answers > 0, "nothing ever arrived in {rounds} rounds");
    // The own queues are whole.
    assert!(ends.iter().all(|end| end.poll().is_none()));
}
