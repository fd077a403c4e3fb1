//! The rules of `ironverbs check`: the library names them where one is broken, the command explains them, and
//! the pages of `docs/rules/` are written from them (`cargo run -p xtask -- check-rules`). This file uses no
//! other.

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The rule is broken, whatever else the program knows.
    Error,
    /// The program may have a reason that cannot be seen from here. Only shown where it was asked for.
    Note,
}

impl Class {
    /// How it is called in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Note => "note",
        }
    }
}

/// What is known of a rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name in reports, and of its page.
    pub id: &'static str,
    /// The most that a finding can be; where the rule is less sure, it is a [`Class::Note`].
    pub class: Class,
    /// What a program does that breaks it, in a sentence.
    pub sentence: &'static str,
    /// What to do instead.
    pub remedy: &'static str,
    /// How it is found, when it is a note, and what is not found.
    pub how: &'static str,
    /// Where it is written.
    pub source: &'static str,
}

macro_rules! rules {
    ($($name:ident $id:literal $class:ident
        says $sentence:literal
        do $remedy:literal
        how $how:literal
        by $source:literal;)+) => {
        /// Names of the rules, in the order of [`ALL`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Id {
            $(#[doc = $sentence] $name,)+
        }

        /// All rules.
        pub static ALL: &[Rule] = &[$(Rule {
            id: $id,
            class: Class::$class,
            sentence: $sentence,
            remedy: $remedy,
            how: $how,
            source: $source,
        }),+];
    };
}

impl Id {
    /// What is known of it.
    #[must_use]
    pub fn rule(self) -> &'static Rule {
        &ALL[self as usize]
    }
}

/// The rule of that name.
#[must_use]
pub fn named(id: &str) -> Option<&'static Rule> {
    ALL.iter().find(|rule| rule.id == id)
}

rules! {
    KeyDeregistered "key-deregistered" Error
    says "A work request names the key of a region that is no longer registered."
    do "Deregister a region only when all requests that name it have completed, and take its keys out of \
        what builds requests."
    how "At the post of a send or receive request: its key belonged to a region of the device context that \
        the program has deregistered, and to none that is there. The last 4096 regions that ended are \
        remembered."
    by "InfiniBand specification 10.6.3; ibv_reg_mr(3)";

    KeyRange "key-range" Error
    says "A work request names bytes that are not in the region of its key."
    do "Compute addresses from the start of the region (or from its iova), and lengths from its length."
    how "At the post: address and length of each element are compared with the region's. Regions whose range \
        only the device knows (imported ones, device memory, whole address spaces) are not judged, nor are \
        elements of length 0."
    by "InfiniBand specification 10.6.3; ibv_post_send(3)";

    KeyAccess "key-access" Error
    says "A work request has the device write to a region, or bind a window to one, that was registered \
        without that right."
    do "Register the region with IBV_ACCESS_LOCAL_WRITE where receives, reads or atomics put their data, and \
        with IBV_ACCESS_MW_BIND where windows are bound."
    how "At the post of a receive, RDMA read, atomic operation or bind: the rights of the element's region."
    by "ibv_reg_mr(3), ibv_bind_mw(3)";

    KeyDomain "key-domain" Error
    says "A work request names the key of a region of another protection domain than its queue's."
    do "Register the region in the protection domain of the queue pair or shared receive queue; a region \
        that two of them use is registered once for each."
    how "At the post: the domain of the region and that of the queue; parent domains count as the domain that \
        they were made of."
    by "InfiniBand specification 10.2.3; ibv_alloc_pd(3)";

    QpState "qp-state" Error
    says "A request is posted to a queue pair that is in no state to take it."
    do "Move the queue pair to INIT before receives are posted, and to RTS before sends are."
    how "At the post: the state that the program has last set. A send in RESET, INIT or RTR, a receive in \
        RESET. Devices may take such a request and lose it."
    by "InfiniBand specification 10.3.1; ibv_modify_qp(3)";

    InlineSize "inline-size" Error
    says "A request has more inline data than the queue pair was made for."
    do "Ask for max_inline_data when the queue pair is created, look at what was given, and send longer data \
        from a registered region."
    how "At the post: the sum of the lengths against the max_inline_data that the creation has answered."
    by "ibv_create_qp(3), ibv_post_send(3)";

    AtomicAlignment "atomic-alignment" Error
    says "An atomic operation goes to an address that is not a multiple of 8."
    do "Align the words that peers change by atomic operations to 8 bytes."
    how "At the post: the remote address. The responder refuses it, with a completion in error later."
    by "InfiniBand specification 9.4.5; ibv_post_send(3)";

    SendQueueUnsignaled "send-queue-unsignaled" Error
    says "A send queue is full of requests of which none was signaled: it never has room again."
    do "Set IBV_SEND_SIGNALED at least once in max_send_wr requests, and poll its completion."
    how "At the post of the request for which there is no room: all outstanding ones were posted without a \
        signal. A note says when the last place is taken."
    by "ibv_post_send(3), ibv_create_qp(3)";

    CqOverrun "cq-overrun" Error
    says "A completion queue has, or will have, more completions than entries."
    do "Create the queue with an entry for every signaled send and every receive that may be outstanding, or \
        post less until completions were polled."
    how "At the post: signaled sends whose completions were not polled are more than the queue's entries; or \
        the device has reported IBV_EVENT_CQ_ERR. A note where receives must be counted to come to as many. \
        Queues with IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN are left alone."
    by "ibv_create_cq(3), ibv_poll_cq(3)";

    BufferChanged "buffer-changed" Error
    says "The program has changed a buffer before the completion of the request that sends it was polled."
    do "Leave the buffer of a send, RDMA write or atomic write alone until its completion was polled, or \
        send it inline."
    how "A checksum of the bytes at the post is compared when the completion is polled. Requests of 4 KiB and \
        less count whole; of longer ones the first and the last KiB, and 64 bytes at each of 32 places \
        between them. The first 64 posts at each place of the program are judged, then one of 16, at random \
        but alike in each run. A note where the program may know that the data has arrived, or where others \
        may write: unsignaled requests, datagrams, regions that peers may write, and queue pairs that have \
        received since the post."
    by "InfiniBand specification 10.7.3; ibv_post_send(3)";

    BufferUnmapped "buffer-unmapped" Error
    says "The program has unmapped or protected a buffer before the completion of the request that sends it \
        was polled."
    do "Free a buffer after the completion was polled and its region deregistered."
    how "As for buffer-changed, with the same exceptions: what could be read at the post can not when the \
        completion is polled. It is read by a system call, without a fault."
    by "InfiniBand specification 10.7.3; ibv_reg_mr(3)";

    RegionInUse "region-in-use" Note
    says "A region is deregistered while a signaled request that names it has not completed."
    do "Poll the completion first, or destroy the queue pair first."
    how "At the call that deregisters: requests of queue pairs in RTS whose completions were not polled. The \
        device may have done them already, so it is a note."
    by "ibv_reg_mr(3)";

    ErrorIgnored "error-ignored" Error
    says "The program goes on posting to a queue pair whose requests complete in error."
    do "Look at ibv_wc.status of each completion. After an error, move the queue pair to RESET and up again, \
        or destroy it."
    how "At the post: the program has polled an error of the queue pair, posted, polled that request's error \
        too, and posts again, without a change or a query of the state in between."
    by "ibv_poll_cq(3)";

    ReceiveNotReady "receive-not-ready" Error
    says "The peer had no receive request for a message, as often as it was tried again."
    do "Post receive requests before the peer sends, as many as messages may be on their way; or set \
        rnr_retry to 7."
    how "At the poll of a completion with IBV_WC_RNR_RETRY_EXC_ERR. A note where the own queue has just given \
        out its last receive request while the queue pair can receive."
    by "InfiniBand specification 9.7.5; ibv_modify_qp(3)";

    EventUnacknowledged "event-unacknowledged" Error
    says "A queue is destroyed whose events were not all acknowledged: the call waits for ever."
    do "Call ibv_ack_cq_events for each event of ibv_get_cq_event, and ibv_ack_async_event for each of \
        ibv_get_async_event, before the object is destroyed."
    how "At the call that destroys: the thread has taken events of the queue itself that nobody has \
        acknowledged. A note where another thread took them, which may acknowledge them yet."
    by "ibv_get_cq_event(3), ibv_get_async_event(3)";

    ObjectsLeft "objects-left" Note
    says "Objects are left when the program ends, or when it closes their device."
    do "Destroy objects in the order in which they need each other: queue pairs, completion queues, regions, \
        domains, device."
    how "At exit and at ibv_close_device, together for each place at which objects were made. The kernel \
        frees what a process leaves, so it is a note. What ends by _exit or a signal is not looked at."
    by "ibv_close_device(3)";

    CompletionsUnread "completions-unread" Note
    says "A queue pair is destroyed with signaled requests whose completions were never polled."
    do "Poll until all signaled requests have completed, and look at their status: a request that failed \
        says so nowhere else."
    how "At ibv_destroy_qp, for queue pairs in RTS, or in ERR with requests from before."
    by "ibv_poll_cq(3)";

    GidRoceV1 "gid-roce-v1" Note
    says "A connection or address uses a GID of RoCE v1 where the port has the same address for RoCE v2."
    do "Use the index of the GID whose type is RoCE v2 (ibv_devinfo -v, ibv_query_gid_ex)."
    how "At ibv_modify_qp to RTR and ibv_create_ah: the types of the port's GIDs in sysfs. Both ends may want \
        v1, so it is a note."
    by "ibv_query_gid_ex(3)";

    ReadAtomicDepth "read-atomic-depth" Error
    says "A queue pair may have more RDMA reads and atomics in flight than its peer takes."
    do "Set max_rd_atomic to no more than the peer's max_dest_rd_atomic."
    how "At ibv_modify_qp, for queue pairs that are connected with each other in the process, through one \
        device. What another process has set cannot be seen."
    by "InfiniBand specification 9.7.3; ibv_modify_qp(3)";

    CqThreads "cq-threads" Error
    says "Several threads poll a completion queue that was created for one."
    do "Create it without IBV_CREATE_CQ_ATTR_SINGLE_THREADED, or let one thread poll it."
    how "At the poll: another thread is within a poll of the queue at that moment. A note where threads have \
        polled it one after the other, which a lock of the program's may guard."
    by "ibv_create_cq_ex(3)";

    QpThreads "qp-threads" Error
    says "Several threads post to a queue pair that was created in a thread domain."
    do "Create it in a protection domain without a thread domain, or let one thread post."
    how "At the post: another thread is within a post to the queue pair at that moment. A note where threads \
        have posted one after the other."
    by "ibv_alloc_td(3), ibv_alloc_parent_domain(3)";

    ForkUnsafe "fork-unsafe" Error
    says "The program forks with registered memory that a fork takes away from the device."
    do "Call ibv_fork_init before memory is registered, or set RDMAV_FORK_SAFE=1; or use vfork or \
        posix_spawn."
    how "At fork: regions of a device that pins memory are there, on a kernel that does not copy registered \
        pages at fork (before 5.12), and fork protection was not asked for."
    by "ibv_fork_init(3)";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_told_apart_and_end_with_a_period() {
        for (at, rule) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.id != rule.id), "{}", rule.id);
            assert!(
                rule.id.bytes().all(|letter| letter.is_ascii_lowercase() || b"-0123456789".contains(&letter))
            );
            for text in [rule.sentence, rule.remedy, rule.how] {
                assert!(text.ends_with('.') && !text.contains("  "), "{}: {text}", rule.id);
            }
        }
        assert_eq!(named("qp-state").map(|rule| rule.id), Some(Id::QpState.rule().id));
    }
}
