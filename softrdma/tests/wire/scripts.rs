//! Rules of requester and responder, each a script: what goes in, and all that comes out
//! (`softrdma/tests/wire/scripts`, which has the words in its README).

use std::fmt::Write;

use softrdma::rules::requester::{Retry, Syndrome};
use softrdma::rules::verbs::{Opcode, Status};
use softrdma::wire::connection::{Connection, Mtu};
use softrdma::wire::opcode::{Operation, Transport};
use softrdma::wire::packet::Packet;
use softrdma::wire::psn::Psn;
use softrdma::wire::requester::Requester;
use softrdma::wire::requester::message::{Message, Taken, Ticket, Transmit};
use softrdma::wire::responder::Responder;
use softrdma::wire::responder::step::{Executed, Piece, Response, Step};

use crate::text;

/// Words of a line: `KEY=VALUE`, and others.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Words<'a> {
        Words(line.split_whitespace().collect())
    }

    fn value(&self, key: &str, without: u64) -> u64 {
        let found = self.0.iter().filter_map(|word| word.split_once('=')).find(|(name, _)| *name == key);
        found.map_or(without, |(_, value)| text::number(value))
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    fn at(&self, place: usize) -> &'a str {
        self.0.get(place).copied().unwrap_or("")
    }
}

/// What is played with.
struct Player {
    transport: Transport,
    requester: Option<Requester>,
    responder: Option<Responder>,
    response: Option<Response>,
    sent: Vec<Transmit>,
    now: u64,
}

impl Player {
    fn begin(&mut self, words: &Words<'_>) {
        self.transport = if words.has("uc") { Transport::Uc } else { Transport::Rc };
        let connection = Connection {
            transport: self.transport,
            mtu: Mtu::from_bytes(words.value("mtu", 256) as u32).unwrap(),
            dest_qp: 1,
            p_key: 0xffff,
            psn: Psn::new(words.value("psn", 0) as u32),
        };
        let reads = words.value("reads", 4) as u8;
        if words.at(0) == "responder" {
            let mut responder = Responder::new(16).unwrap();
            responder.start(connection, reads);
            self.responder = Some(responder);
            return;
        }
        let mut requester = Requester::new(words.value("places", 16) as u32, 16).unwrap();
        let retry = Retry {
            timeout: words.value("timeout", 4) as u8,
            retry_cnt: words.value("retry", 7) as u8,
            rnr_retry: words.value("rnr", 7) as u8,
        };
        requester.start(connection, retry, reads);
        requester.set_window_limit(words.value("window", 128) as u32);
        self.requester = Some(requester);
    }

    /// What a line of the script does, as the line that was expected.
    fn play(&mut self, line: &str, executed: Option<&str>) -> String {
        let words = Words::of(line);
        match words.at(0) {
            "requester" | "responder" => self.begin(&words),
            "at" => self.now = text::number(words.at(1)),
            ">" => return self.send(),
            "<" => return self.take(line, executed),
            "executed" => {}
            "marked" => self.responder.as_mut().expect("no responder").marked(self.now),
            "congested" if self.responder.is_some() => {
                self.responder.as_mut().expect("no responder").congested(self.now);
            }
            "resumes" => {
                let resumes = self.responder.as_mut().expect("no responder").resumes(self.now);
                return format!("resumes {}", resumes.map_or("now".to_string(), |at| at.to_string()));
            }
            "unsent" => self.unsend(text::number(words.at(1)) as usize),
            "gone" => {
                let response = self.response.take().expect("a response");
                self.responder.as_mut().unwrap().refuse_response(&response, syndrome(words.at(1)));
            }
            _ => return self.control(line, &words),
        }
        line.to_string()
    }

    /// What else happens to a requester.
    fn control(&mut self, line: &str, words: &Words<'_>) -> String {
        let requester = self.requester.as_mut().expect("no requester");
        match words.at(0) {
            "post" => {
                let posted = requester.post(&message(words));
                let (said, _) = line.split_once(" refused").unwrap_or((line, ""));
                return posted.map_or_else(|why| format!("{said} refused {why:?}"), |_| said.to_string());
            }
            "done" => {
                return match requester.done() {
                    Some(done) if done.vendor_err != 0 => {
                        format!("done {} {:?} {:#x}", done.ticket.0, done.status, done.vendor_err)
                    }
                    Some(done) => format!("done {} {:?}", done.ticket.0, done.status),
                    None => "done nothing".to_string(),
                };
            }
            "deadline" => {
                let deadline = requester.deadline();
                return format!("deadline {}", deadline.map_or("none".to_string(), |at| at.to_string()));
            }
            "drained" => {
                return if requester.is_drained() { "drained yes" } else { "drained no" }.to_string();
            }
            "window" => return format!("window {}", requester.window()),
            "expire" => requester.expire(self.now),
            "heard" => requester.heard(),
            "drain" => requester.set_draining(words.at(1) == "on"),
            "fail" => requester.fail(Ticket(text::number(words.at(1))), Status::LocProtErr),
            "flush" => requester.flush(),
            "resume" => requester.resume(),
            "congested" => requester.congested(),
            other => panic!("no such line: {other}"),
        }
        line.to_string()
    }

    /// The last packets were not sent.
    fn unsend(&mut self, packets: usize) {
        match (&mut self.requester, &mut self.responder) {
            (Some(requester), _) => requester.unsend(&self.sent[self.sent.len() - packets]),
            (_, Some(responder)) => responder.unsend(&self.response.take().expect("a response")),
            _ => panic!("neither requester nor responder"),
        }
    }

    fn send(&mut self) -> String {
        if let Some(requester) = &mut self.requester {
            return match requester.next(self.now) {
                Some(transmit) => {
                    self.sent.push(transmit);
                    format!("> {}", text::line(&transmit.head, transmit.length))
                }
                None => "> nothing".to_string(),
            };
        }
        let responder = self.responder.as_mut().expect("neither requester nor responder");
        self.response = responder.next_response(self.now);
        match &self.response {
            Some(Response { head, payload: Some(part) }) => {
                format!("> {} of={:#x} rkey={}", text::line(head, part.length), part.va, part.rkey)
            }
            Some(Response { head, payload: None }) => format!("> {}", text::line(head, 0)),
            None => "> nothing".to_string(),
        }
    }

    fn take(&mut self, line: &str, executed: Option<&str>) -> String {
        let sent = line.split("=>").next().unwrap().trim_end();
        let (head, length) = text::packet(self.transport, &sent[1..]);
        let payload = vec![0; length as usize];
        let packet = Packet { bth: head.bth, headers: head.headers, payload: &payload };
        if let Some(requester) = &mut self.requester {
            return match requester.take(&packet, self.now) {
                Taken::Nothing => sent.to_string(),
                Taken::Read { ticket, offset } => format!("{sent} => read {} at {offset}", ticket.0),
                Taken::Atomic { ticket, original } => format!("{sent} => atomic {} {original}", ticket.0),
            };
        }
        let responder = self.responder.as_mut().expect("neither requester nor responder");
        match responder.take(&packet) {
            Step::Nothing => sent.to_string(),
            Step::Refused => format!("{sent} => refused"),
            Step::Execute(piece) => {
                responder.executed(outcome(executed.unwrap_or("executed done")));
                format!("{sent} => {}", piece_line(&piece))
            }
        }
    }
}

fn message(words: &Words<'_>) -> Message {
    let opcode = match words.at(1) {
        "send" => Opcode::Send,
        "send_imm" => Opcode::SendWithImm,
        "send_inv" => Opcode::SendWithInv,
        "write" => Opcode::RdmaWrite,
        "write_imm" => Opcode::RdmaWriteWithImm,
        "read" => Opcode::RdmaRead,
        "compare_swap" => Opcode::CmpAndSwp,
        "fetch_add" => Opcode::FetchAndAdd,
        "bind" => Opcode::BindMw,
        other => panic!("no operation: {other}"),
    };
    let mut message = Message::new(opcode, text::number(words.at(2)) as u32);
    message.va = words.value("va", 0x1000);
    message.rkey = words.value("rkey", 5) as u32;
    message.imm_or_key = words.value("imm", 0) as u32 | words.value("key", 0) as u32;
    (message.swap_or_add, message.compare) = (words.value("swap_or_add", 0), words.value("compare", 0));
    (message.fence, message.solicited) = (words.has("fence"), words.has("solicited"));
    message
}

fn syndrome(name: &str) -> Syndrome {
    match name {
        "invalid" => Syndrome::InvalidRequest,
        "access" => Syndrome::Access,
        "operational" => Syndrome::Operational,
        other => panic!("no syndrome: {other}"),
    }
}

fn outcome(line: &str) -> Executed {
    let words = Words::of(line);
    match words.at(1) {
        "done" => Executed::Done,
        "original" => Executed::Original(text::number(words.at(2))),
        "not_ready" => Executed::NotReady(text::number(words.at(2)) as u8),
        "refused" => Executed::Refused(syndrome(words.at(2))),
        other => panic!("no outcome: {other}"),
    }
}

fn piece_line(piece: &Piece) -> String {
    let mut line = match piece.operation {
        Operation::Send => format!("send at {}", piece.offset),
        Operation::Write => format!("write at {}", piece.offset),
        Operation::ReadRequest => "read".to_string(),
        Operation::CompareSwap => "compare swap".to_string(),
        _ => "fetch add".to_string(),
    };
    let parts = matches!(piece.operation, Operation::Send | Operation::Write);
    for (is, word) in [
        (parts && piece.begins, "begins"),
        (parts && piece.ends, "ends"),
        (piece.solicited, "solicited"),
        (piece.again, "again"),
    ] {
        if is {
            let _ = write!(line, " {word}");
        }
    }
    if let Some(reth) = piece.memory {
        let _ = write!(line, " va={:#x} rkey={} length={}", reth.va, reth.rkey, reth.length);
    }
    if let Some(imm) = piece.imm {
        let _ = write!(line, " imm={imm}");
    }
    if let Some(key) = piece.invalidate {
        let _ = write!(line, " key={key}");
    }
    line
}

/// Plays the scripts of a file, and says how many there are.
fn play_file(name: &str, scripts: &str) -> usize {
    let lines: Vec<(usize, &str)> = scripts
        .lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line.split('#').next().unwrap().trim()))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    let mut player = None;
    let (mut title, mut count) = ("", 0);
    for (place, &(number, line)) in lines.iter().enumerate() {
        if let Some(said) = line.strip_prefix("==") {
            (title, count) = (said, count + 1);
            player = Some(Player {
                transport: Transport::Rc,
                requester: None,
                responder: None,
                response: None,
                sent: vec![],
                now: 0,
            });
            continue;
        }
        let player = player.as_mut().expect("a script begins with its title");
        let executed =
            lines.get(place + 1).map(|(_, line)| *line).filter(|line| line.starts_with("executed"));
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let came = player.play(&line, executed);
        assert!(came == line, "{name}:{number}:{title}\nexpected  {line}\ncame      {came}\n");
        let last = lines.get(place + 1).is_none_or(|(_, line)| line.starts_with("=="));
        if last {
            let left = player.send();
            assert!(left == "> nothing", "{name}:{number}:{title}\nbehind its end {left}\n");
        }
    }
    count
}

// rule: wire-lost-answer, wire-old-answers, wire-gap, status-of-nak, ack-retries, rnr-retries, rnr-wait
// rule: qp-drains, wire-congestion, wire-tail-loss, wire-credits
#[test]
fn requester_scripts() {
    assert!(play_file("requester.txt", include_str!("scripts/requester.txt")) >= 20);
}

// rule: wire-gap, wire-duplicates, wire-acknowledge, wire-sequence, wire-packet-length, wire-write-length
// rule: wire-unreliable-gap, wire-congestion
#[test]
fn responder_scripts() {
    assert!(play_file("responder.txt", include_str!("scripts/responder.txt")) >= 20);
}
