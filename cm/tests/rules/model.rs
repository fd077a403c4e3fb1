//! The model: written from the kernel's rules alone, it shares nothing with the machine.

use std::collections::BTreeMap;

use ironverbs_cm::address::PortSpace;

const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOENT: i32 = 2;
const EADDRINUSE: i32 = 98;
const EADDRNOTAVAIL: i32 = 99;

/// What an id is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    Any,
    Host(u8),
    /// No address of this host.
    Foreign,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Idle,
    Bound,
    Resolved,
    Routed,
    Connect,
    Listen,
}

/// Where the connection is, as far as it can be known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cm {
    None,
    Listen,
    /// REQ or SIDR_REQ was sent.
    Asked,
    /// REQ or SIDR_REQ came.
    Request,
    RepSent,
    RepRcvd,
    Established,
    Over,
}

#[derive(Clone, Debug)]
pub struct Id {
    pub file: usize,
    pub ud: bool,
    pub phase: Phase,
    pub device: bool,
    /// `None`: it depends on what the other side did.
    pub cm: Option<Cm>,
    space: PortSpace,
    own: Own,
    six: bool,
    port: u16,
    reuse: bool,
    alone: Option<bool>,
    /// When it got its port.
    bound: u32,
    to: Option<(&'static str, u16)>,
}

#[derive(Default)]
pub struct Model {
    pub low: bool,
    ids: BTreeMap<u32, Id>,
    binds: u32,
    /// Somebody gave up, and requests of his may be under way.
    given_up: bool,
}

type Rule = Result<(), i32>;

fn need(condition: bool) -> Rule {
    if condition { Ok(()) } else { Err(EINVAL) }
}

impl Model {
    pub fn get(&mut self, id: u32) -> &mut Id {
        self.ids.get_mut(&id).expect("an id of the model")
    }

    pub fn some_id(&self, choice: usize) -> Option<u32> {
        self.ids.keys().nth(choice % self.ids.len().max(1)).copied()
    }

    pub fn file(&self, id: u32) -> Option<usize> {
        self.ids.get(&id).map(|id| id.file)
    }

    pub fn known(&self, file: usize, id: u32) -> Rule {
        need(self.ids.get(&id).ok_or(ENOENT)?.file == file)
    }

    pub fn create(&mut self, id: u32, file: usize, space: PortSpace) {
        let new = Id {
            file,
            ud: space == PortSpace::Udp,
            phase: Phase::Idle,
            device: false,
            cm: Some(Cm::None),
            space,
            own: Own::Any,
            six: false,
            port: 0,
            reuse: false,
            alone: None,
            bound: 0,
            to: None,
        };
        assert!(self.ids.insert(id, new).is_none());
    }

    pub fn requested(&mut self, id: u32, file: usize, ud: bool) {
        self.create(id, file, if ud { PortSpace::Udp } else { PortSpace::Tcp });
        let given_up = self.given_up;
        let new = self.get(id);
        new.phase = Phase::Connect;
        new.device = true;
        new.cm = if given_up { None } else { Some(Cm::Request) };
    }

    /// Whoever was connected with it may hear of it at any time.
    fn peers_may_know(&mut self, id: u32) {
        self.given_up |= self.ids.values().any(|life| life.phase == Phase::Connect);
        for (other, life) in &mut self.ids {
            if *other != id && life.phase == Phase::Connect && life.cm != Some(Cm::Over) {
                life.cm = None;
            }
        }
    }

    pub fn destroy(&mut self, id: u32) {
        self.peers_may_know(id);
        self.ids.remove(&id);
    }

    /// A given port against those that others have.
    fn port_is_free(&self, id: u32, six: bool, own: Own, port: u16, reuse: bool) -> Rule {
        let me = &self.ids[&id];
        let alone = me.alone.unwrap_or(!six);
        let mut others: Vec<_> = self.ids.iter().collect();
        others.sort_by_key(|(_, you)| std::cmp::Reverse(you.bound));
        for (other, you) in others {
            if *other == id || you.port != port || you.space != me.space {
                continue;
            }
            let yours = you.alone.unwrap_or(!you.six);
            if (reuse && you.reuse) || (alone && yours && six != you.six) {
                continue;
            }
            match (own, you.own) {
                (Own::Any, _) | (_, Own::Any) => return Err(EADDRNOTAVAIL),
                (a, b) if a == b => return Err(EADDRINUSE),
                _ => {}
            }
        }
        Ok(())
    }

    pub fn bind(&self, id: u32, six: bool, own: Own, port: u16) -> Rule {
        let me = &self.ids[&id];
        need(me.phase == Phase::Idle)?;
        if own == Own::Foreign {
            return Err(EADDRNOTAVAIL);
        }
        if port == 0 {
            return Ok(());
        }
        if port < 1024 && !self.low {
            return Err(EACCES);
        }
        self.port_is_free(id, six, own, port, me.reuse)
    }

    pub fn bound(&mut self, id: u32, six: bool, own: Own, port: u16) {
        self.binds += 1;
        let binds = self.binds;
        let me = self.get(id);
        me.bound = binds;
        me.phase = Phase::Bound;
        me.own = own;
        me.six = six;
        me.port = port;
        me.device = matches!(own, Own::Host(_));
        me.alone = Some(me.alone.unwrap_or(!six));
    }

    pub fn may_set(&self, id: u32, name: u32, value: bool) -> Rule {
        let phase = self.ids[&id].phase;
        match name {
            1 => need(if value { phase != Phase::Listen } else { phase == Phase::Idle }),
            _ => need(matches!(phase, Phase::Idle | Phase::Bound)),
        }
    }

    pub fn set(&mut self, id: u32, name: u32, value: bool) {
        match name {
            1 => self.get(id).reuse = value,
            _ => self.get(id).alone = Some(value),
        }
    }

    pub fn listen(&self, id: u32) -> Rule {
        let me = &self.ids[&id];
        if me.phase == Phase::Idle {
            return Ok(());
        }
        need(me.phase == Phase::Bound)?;
        if me.reuse {
            self.port_is_free(id, me.six, me.own, me.port, false)?;
        }
        Ok(())
    }

    pub fn listens(&mut self, id: u32, port: u16) {
        if self.get(id).phase == Phase::Idle {
            self.bound(id, false, Own::Any, port);
        }
        let me = self.get(id);
        me.phase = Phase::Listen;
        me.reuse = false;
        me.cm = Some(if me.device { Cm::Listen } else { Cm::None });
    }

    pub fn resolve(&self, id: u32, six: bool) -> Rule {
        let me = &self.ids[&id];
        need(match me.phase {
            Phase::Idle => true,
            Phase::Bound => me.six == six,
            _ => false,
        })
    }

    pub fn resolved(&mut self, id: u32, found: bool, to: (&'static str, u16)) {
        let me = self.get(id);
        me.to = Some(to);
        if found {
            me.phase = Phase::Resolved;
            me.device = true;
            if me.own == Own::Any && !to.0.contains(':') && to.0 != "127.0.0.1" {
                me.own = Own::Host(1);
            }
        }
    }

    pub fn route(&self, id: u32) -> Rule {
        let me = &self.ids[&id];
        need(me.device && me.phase == Phase::Resolved)
    }

    pub fn connect(&self, id: u32, size: usize) -> Rule {
        let me = &self.ids[&id];
        need(me.device && me.phase == Phase::Routed && (me.ud || size <= 56))
    }

    pub fn connected(&mut self, id: u32) {
        let me = self.get(id);
        me.phase = Phase::Connect;
        me.cm = Some(Cm::Asked);
    }

    /// Also what it does; `None` where that is not known.
    pub fn accept(&mut self, id: u32, valid: bool) -> Option<Rule> {
        let me = self.get(id);
        if !me.device || me.phase != Phase::Connect {
            return Some(Err(EINVAL));
        }
        let done = match (me.cm?, valid) {
            (Cm::Request, _) if me.ud => Ok(Cm::Over),
            (Cm::Request, true) => Ok(Cm::RepSent),
            (Cm::RepRcvd, false) => Ok(Cm::Established),
            // What cannot be accepted is rejected, where that can be done.
            (Cm::Established | Cm::Over, _) => return Some(Err(EINVAL)),
            (Cm::Asked, _) if me.ud => return Some(Err(EINVAL)),
            // The other side may have said that it is ready.
            (Cm::RepSent, _) => Err(None),
            _ => Err(Some(Cm::Over)),
        };
        me.cm = match done {
            Ok(cm) => Some(cm),
            Err(cm) => cm,
        };
        if done.is_err() {
            self.peers_may_know(id);
        }
        Some(done.map(drop).map_err(|_| EINVAL))
    }

    pub fn reject(&mut self, id: u32) -> Option<Rule> {
        let me = self.get(id);
        if !me.device {
            return Some(Err(EINVAL));
        }
        match me.cm? {
            Cm::Request => {}
            Cm::Asked | Cm::RepSent | Cm::RepRcvd if !me.ud => {}
            _ => return Some(Err(EINVAL)),
        }
        me.cm = Some(Cm::Over);
        self.peers_may_know(id);
        Some(Ok(()))
    }

    pub fn disconnect(&self, id: u32) -> Rule {
        let me = &self.ids[&id];
        // Once there was a connection, it is no error.
        need(me.device && me.cm != Some(Cm::None))
    }

    pub fn disconnected(&mut self, id: u32) {
        let me = self.get(id);
        if me.cm == Some(Cm::Established) {
            me.cm = None;
            self.peers_may_know(id);
        }
    }

    pub fn attr(&self, id: u32, state: u32) -> Option<Rule> {
        let me = &self.ids[&id];
        if !me.device {
            return Some(Err(EINVAL));
        }
        if me.ud {
            return Some(Ok(()));
        }
        let answered = matches!(me.cm?, Cm::Request | Cm::RepSent | Cm::RepRcvd | Cm::Established);
        Some(need(match me.cm? {
            Cm::None => true,
            Cm::Asked => state == 1,
            _ => answered,
        }))
    }

    pub fn join(&self, id: u32) -> Rule {
        let me = &self.ids[&id];
        need(me.device && me.ud && matches!(me.phase, Phase::Bound | Phase::Resolved))
    }
}
