//! Which calls are shown (`-e`): names and classes with commas between, and `!` before the list for all others.

use super::event::Event;

/// The classes, and the beginnings of the names that are in them, without `ibv_` or `rdma_`. The manual page
/// has them.
const CLASSES: &[(&str, &[&str])] = &[
    ("create", &["create_", "alloc_", "open_", "reg_", "import_"]),
    ("destroy", &["destroy_", "dealloc_", "close_", "dereg_", "free_", "unimport_"]),
    (
        "modify",
        &[
            "modify_",
            "resize_",
            "rereg_",
            "attach_",
            "detach_",
            "set_",
            "advise_",
            "bind_",
            "inc_",
            "qp_attach_",
        ],
    ),
    ("query", &["query_", "get_device", "get_pkey", "get_srq", "read_"]),
    ("event", &["req_notify_", "get_cq_event", "get_async_event", "get_cm_event", "ack_"]),
    ("post", &["post_", "wr_", "bind_mw"]),
    ("poll", &["poll_cq", "start_poll", "next_poll", "end_poll"]),
    ("data", &["post_", "wr_", "poll_cq", "start_poll", "next_poll", "end_poll", "req_notify_", "memcpy_"]),
];
/// Calls that failed.
const FAILED: &str = "failed";
/// All that is no call of the data path.
const CONTROL: &str = "control";
/// Calls of the connection manager.
const CM: &str = "cm";
/// What their names begin with.
const CM_PREFIX: &str = "rdma_";

/// One word of a filter.
enum Term {
    Class(&'static [&'static str]),
    Control,
    Cm,
    Failed,
    Name(String),
}

/// A filter.
pub struct Filter {
    terms: Vec<Term>,
    others: bool,
}

fn short(verb: &str) -> &str {
    verb.strip_prefix("ibv_").or_else(|| verb.strip_prefix(CM_PREFIX)).unwrap_or(verb)
}

fn is_in(verb: &str, class: &[&str]) -> bool {
    class.iter().any(|begin| short(verb).starts_with(begin))
}

fn data() -> &'static [&'static str] {
    CLASSES.iter().find(|(name, _)| *name == "data").map_or(&[], |(_, class)| class)
}

impl std::str::FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (others, list) = text.strip_prefix('!').map_or((false, text), |list| (true, list));
        let term = |word: &str| {
            let class = CLASSES.iter().find(|(name, _)| *name == word);
            match (class, word) {
                (Some((_, class)), _) => Ok(Term::Class(class)),
                (None, CONTROL) => Ok(Term::Control),
                (None, CM) => Ok(Term::Cm),
                (None, FAILED) => Ok(Term::Failed),
                (None, name) if name.contains('_') => Ok(Term::Name(name.to_owned())),
                (None, other) => {
                    let classes: Vec<_> =
                        CLASSES.iter().map(|(name, _)| *name).chain([CONTROL, CM, FAILED]).collect();
                    Err(format!("neither a verb nor a class: {other:?}; classes are {}", classes.join(", ")))
                }
            }
        };
        Ok(Self { terms: list.split(',').map(term).collect::<Result<_, _>>()?, others })
    }
}

impl Filter {
    /// Whether the call is shown.
    pub fn takes(&self, event: &Event) -> bool {
        let is = |term: &Term| match term {
            Term::Class(class) => is_in(&event.verb, class),
            Term::Control => !is_in(&event.verb, data()),
            Term::Cm => event.verb.starts_with(CM_PREFIX),
            Term::Failed => event.failed.is_some(),
            Term::Name(name) => [event.verb.as_str(), short(&event.verb)].contains(&name.as_str()),
        };
        self.terms.iter().any(is) != self.others
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::event;

    fn takes(filter: &str, verb: &str) -> bool {
        filter.parse::<super::Filter>().unwrap().takes(&event(verb))
    }

    #[test]
    fn names_and_classes() {
        assert!(takes("create,modify", "ibv_create_cq") && takes("create,modify", "ibv_modify_qp"));
        assert!(!takes("create,modify", "ibv_post_send"));
        assert!(takes("post", "ibv_post_srq_recv") && takes("post", "ibv_wr_complete"));
        assert!(!takes("!poll", "ibv_poll_cq") && takes("!poll", "ibv_post_send"));
        assert!(takes("ibv_poll_cq", "ibv_poll_cq") && takes("poll_cq", "ibv_poll_cq"));
        assert!(takes("control", "ibv_reg_mr") && !takes("control", "ibv_poll_cq"));
        assert!(!takes("failed", "ibv_reg_mr"));
        assert!(takes("cm", "rdma_connect") && !takes("cm", "ibv_create_cq"));
        assert!(takes("event", "rdma_get_cm_event") && takes("create", "rdma_create_id"));
        assert!(takes("rdma_bind_addr", "rdma_bind_addr") && takes("get_cm_event", "rdma_get_cm_event"));
        assert!(!takes("ibv_create_id", "rdma_create_id") && takes("control", "rdma_listen"));
        assert!("polls".parse::<super::Filter>().is_err_and(|why| why.contains("classes are create,")));
    }
}
