#!/usr/bin/python3
"""Programs of pyverbs whose two sides are on two hosts (apart.c): prints `passed CASE` or `failed CASE WHY` for each.

pair.py [CASE...]

Each side says to the other where it is, both go to RTS, and what one sends the other looks for. Nothing is judged by time."""

import json
import os
import socket
import sys
import traceback

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CQEX, CompChannel, CqInitAttrEx
from pyverbs.device import Context
from pyverbs.mr import MR, MW
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR
from pyverbs.mr import MWBindInfo

PORT, GID, QKEY, SIZE, MESSAGES = 1, 1, 0x11111111, 20000, 50
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ | e.IBV_ACCESS_REMOTE_ATOMIC


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(map(str, what)))


class Side:
    """What one side has: a queue pair, connected with the other's."""

    def __init__(self, link, number, kind, srq=False, cq_ex=False, qp_ex=0, events=False, access=ACCESS):
        self.link, self.number, self.kind = link, number, kind
        self.context = Context(name="rxe0")
        self.pd = PD(self.context)
        self.channel = CompChannel(self.context) if events else None
        if cq_ex:
            self.cq = CQEX(self.context, CqInitAttrEx(cqe=256, wc_flags=e.IBV_WC_STANDARD_FLAGS))
        else:
            self.cq = CQ(self.context, 256, None, self.channel)
        self.mr = MR(self.pd, SIZE + 40, access | (e.IBV_ACCESS_MW_BIND if access == ACCESS else 0))
        self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=256))) if srq else None
        cap = QPCap(max_send_wr=128, max_recv_wr=128)
        if qp_ex:
            init = QPInitAttrEx(qp_type=kind, scq=self.cq, rcq=self.cq, srq=self.srq, cap=cap, pd=self.pd, sq_sig_all=1,
                                send_ops_flags=qp_ex,
                                comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
            self.qp = QPEx(self.context, init)
        else:
            self.qp = QP(self.pd, QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, srq=self.srq, cap=cap, sq_sig_all=1))
        self.wc, self.seen = None, []
        self.connect()

    def swap(self, said=None):
        """Says something, and returns what the other side has said."""
        self.link.sendall((json.dumps(said) + "\n").encode())
        line = b""
        while not line.endswith(b"\n"):
            byte = self.link.recv(1)
            check(byte, "the other side has ended")
            line += byte
        return json.loads(line)

    def connect(self):
        gid = self.context.query_gid(PORT, GID).gid
        self.peer = self.swap({"gid": gid, "qpn": self.qp.qp_num, "addr": self.mr.buf, "rkey": self.mr.rkey})
        self.path = AHAttr(port_num=PORT, is_global=1, gr=GlobalRoute(dgid=gid_of(self.peer["gid"]), sgid_index=GID))
        attr = QPAttr(port_num=PORT)
        attr.qkey = QKEY
        if self.kind == e.IBV_QPT_UD:
            self.qp.to_rts(attr)
            self.ah = AH(self.pd, attr=self.path)
        else:
            attr.qp_access_flags = ACCESS
            attr.path_mtu = e.IBV_MTU_1024
            attr.dest_qp_num = self.peer["qpn"]
            attr.rq_psn = attr.sq_psn = 100
            attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
            attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 1, 20, 7, 7
            attr.ah_attr = self.path
            self.qp.to_rts(attr)
        self.swap()

    def receive(self, times=1):
        for _ in range(times):
            wr = RecvWR(sg=[SGE(self.mr.buf, SIZE + 40, self.mr.lkey)], num_sge=1)
            self.srq.post_recv(wr) if self.srq else self.qp.post_recv(wr)

    def send(self, opcode, length, imm=None, remote=None, atomic=None, invalidate=None):
        wr = SendWR(wr_id=7, sg=[SGE(self.mr.buf, length, self.mr.lkey)], num_sge=1, opcode=opcode,
                    send_flags=e.IBV_SEND_SIGNALED, imm_data=imm or 0)
        if self.kind == e.IBV_QPT_UD:
            wr.set_wr_ud(self.ah, self.peer["qpn"], QKEY)
        if remote:
            wr.set_wr_rdma(*remote)
        if atomic:
            wr.set_wr_atomic(*atomic)
        if invalidate is not None:
            wr.invalidate_rkey = invalidate
        self.qp.post_send(wr)

    def next(self):
        """The next completion, a success: its opcode, length and immediate data."""
        if isinstance(self.cq, CQEX):
            from pyverbs.cq import PollCqAttr
            while self.cq.start_poll(PollCqAttr()) == 2:
                pass
            status = self.cq.status
            done = (self.cq.read_opcode(), self.cq.read_byte_len(), 0)
            self.cq.end_poll()
        else:
            while not self.seen:
                if self.channel and not self.polls_once():
                    self.cq.req_notify()
                    if not self.polls_once():
                        self.channel.get_cq_event(self.cq)
                        self.cq.ack_events(1)
                self.polls_once()
            wc = self.seen.pop(0)
            status, done = wc.status, (wc.opcode, wc.byte_len, wc.imm_data)
        check(status == e.IBV_WC_SUCCESS, "a completion with status", status)
        return done

    def polls_once(self):
        count, wcs = self.cq.poll(16)
        self.seen += wcs
        return count

    def fill(self, character, length):
        self.mr.write(character * length, length)

    def has(self, character, length, offset=0):
        check(self.mr.read(length, offset) in (character * length, (character * length).encode()), "other bytes came")


def gid_of(gid):
    from pyverbs.addr import GID as Gid
    return Gid(gid)


def exchange(side, length, offset=0):
    """Messages go to and fro, each the answer to the one before."""
    side.receive()
    side.swap()
    for number in range(MESSAGES):
        character = "abcdefgh"[number % 8]
        if number % 2 == side.number:
            side.fill(character, length)
            side.send(e.IBV_WR_SEND, length)
            check(side.next()[0] == e.IBV_WC_SEND, "another completion than that of the send")
        else:
            check(side.next()[:2] == (e.IBV_WC_RECV, length + offset), "another message")
            side.has(character, length, offset)
            side.receive()
            side.swap()
            continue
        side.swap()


def rc(link, number, **how):
    exchange(Side(link, number, e.IBV_QPT_RC, **how), 15000)


def uc(link, number):
    exchange(Side(link, number, e.IBV_QPT_UC), 3000)


def ud(link, number):
    exchange(Side(link, number, e.IBV_QPT_UD), 1000, 40)


def srq(link, number):
    rc(link, number, srq=True)


def cq_ex(link, number):
    rc(link, number, cq_ex=True)


def events(link, number):
    rc(link, number, events=True)


def memory(link, number):
    """Writes, with immediate data too, and reads."""
    side = Side(link, number, e.IBV_QPT_RC)
    there = side.peer["rkey"], side.peer["addr"]
    if number == 0:
        side.fill("w", SIZE)
        side.send(e.IBV_WR_RDMA_WRITE, SIZE, remote=there)
        check(side.next()[0] == e.IBV_WC_RDMA_WRITE, "no write")
    side.swap()
    if number == 1:
        side.has("w", SIZE)
        side.fill("r", SIZE)
        side.receive()
    side.swap()
    if number == 0:
        side.fill("x", SIZE)
        side.send(e.IBV_WR_RDMA_READ, SIZE, remote=there)
        check(side.next()[0] == e.IBV_WC_RDMA_READ, "no read")
        side.has("r", SIZE)
        side.fill("i", 5000)
        side.send(e.IBV_WR_RDMA_WRITE_WITH_IMM, 5000, imm=77, remote=there)
        check(side.next()[0] == e.IBV_WC_RDMA_WRITE, "no write with immediate data")
    else:
        done = side.next()
        check(done[:2] == (e.IBV_WC_RECV_RDMA_WITH_IMM, 5000) and socket.ntohl(done[2]) in (77, socket.ntohl(77)), *done)
        side.has("i", 5000)
        side.has("r", SIZE - 5000, 5000)
    side.swap()


def atomics(link, number):
    """Both sides add to one number at once; then one swaps another."""
    side = Side(link, number, e.IBV_QPT_RC)
    side.mr.write("\0" * 16, 16)
    side.swap()
    for _ in range(MESSAGES):
        wr = SendWR(sg=[SGE(side.mr.buf + 64, 8, side.mr.lkey)], num_sge=1, opcode=e.IBV_WR_ATOMIC_FETCH_AND_ADD,
                    send_flags=e.IBV_SEND_SIGNALED)
        wr.set_wr_atomic(side.peer["rkey"], side.peer["addr"], 3)
        side.qp.post_send(wr)
        check(side.next()[0] == e.IBV_WC_FETCH_ADD, "no addition")
    side.swap()
    check(int.from_bytes(side.mr.read(8, 0), sys.byteorder) == 3 * MESSAGES, "another sum")
    check(int.from_bytes(side.mr.read(8, 64), sys.byteorder) == 3 * (MESSAGES - 1), "another number before")
    side.swap()
    wr = SendWR(sg=[SGE(side.mr.buf + 64, 8, side.mr.lkey)], num_sge=1, opcode=e.IBV_WR_ATOMIC_CMP_AND_SWP,
                send_flags=e.IBV_SEND_SIGNALED)
    wr.set_wr_atomic(side.peer["rkey"], side.peer["addr"], 3 * MESSAGES, 99)
    side.qp.post_send(wr)
    check(side.next()[0] == e.IBV_WC_COMP_SWAP, "no swap")
    side.swap()
    check(int.from_bytes(side.mr.read(8, 0), sys.byteorder) == 99, "nothing was swapped")
    side.swap()


def new_post_send(link, number):
    """Requests by the calls of extended queue pairs."""
    flags = e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_SEND_WITH_IMM | e.IBV_QP_EX_WITH_RDMA_WRITE
    side = Side(link, number, e.IBV_QPT_RC, qp_ex=flags)
    side.receive(2)
    side.swap()
    if number == 0:
        side.fill("n", 6000)
        side.qp.wr_start()
        side.qp.wr_id = 1
        side.qp.wr_rdma_write(side.peer["rkey"], side.peer["addr"] + 6000)
        side.qp.wr_set_sge(SGE(side.mr.buf, 6000, side.mr.lkey))
        side.qp.wr_send_imm(5)
        side.qp.wr_set_sge(SGE(side.mr.buf, 6000, side.mr.lkey))
        side.qp.wr_complete()
        check(side.next()[0] == e.IBV_WC_RDMA_WRITE, "no write")
        check(side.next()[0] == e.IBV_WC_SEND, "no send")
    else:
        check(side.next()[:2] == (e.IBV_WC_RECV, 6000), "another message")
        side.has("n", 12000)
    side.swap()


def windows(link, number):
    """A window of memory is bound, written through and invalidated by the peer; then a write fails."""
    flags = e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_BIND_MW | e.IBV_QP_EX_WITH_SEND_WITH_INV | e.IBV_QP_EX_WITH_RDMA_WRITE
    side = Side(link, number, e.IBV_QPT_RC, qp_ex=flags)
    side.receive(2)
    rkey = 0
    if number == 1:
        window = MW(side.pd, e.IBV_MW_TYPE_2)
        rkey = (window.rkey & ~0xff) | ((window.rkey + 1) & 0xff)
        side.qp.wr_start()
        side.qp.wr_bind_mw(window, rkey, MWBindInfo(side.mr, side.mr.buf, 8000, e.IBV_ACCESS_REMOTE_WRITE))
        side.qp.wr_complete()
        check(side.next()[0] == e.IBV_WC_BIND_MW, "no window")
    there = side.swap(rkey)
    if number == 0:
        side.fill("v", 8000)
        side.send(e.IBV_WR_RDMA_WRITE, 8000, remote=(there, side.peer["addr"]))
        check(side.next()[0] == e.IBV_WC_RDMA_WRITE, "no write")
        side.qp.wr_start()
        side.qp.wr_send_inv(there)
        side.qp.wr_set_sge(SGE(side.mr.buf + 8000, 4, side.mr.lkey))
        side.qp.wr_complete()
        check(side.next()[0] == e.IBV_WC_SEND, "no send")
        side.send(e.IBV_WR_RDMA_WRITE, 8000, remote=(there, side.peer["addr"] + 0))
        while not side.seen:
            side.polls_once()
        check(side.seen[0].status == e.IBV_WC_REM_ACCESS_ERR, "the window is still there")
    else:
        check(side.next()[0] == e.IBV_WC_RECV, "no message")
        side.has("v", 4, 7996)
    side.swap()


CASES = [rc, uc, ud, srq, cq_ex, events, memory, atomics, new_post_send, windows]


def run(case):
    links = socket.socketpair()
    pids = []
    for number in (0, 1):
        pid = os.fork()
        if pid == 0:
            links[1 - number].close()
            try:
                case(links[number], number)
            except BaseException:
                why = " ".join(traceback.format_exc().split()[-60:])
                os.write(1, f"failed pair-{case.__name__} {why}\n".encode())
                os._exit(1)
            os._exit(0)
        pids.append(pid)
    for link in links:
        link.close()
    status = [os.waitpid(pid, 0)[1] for pid in pids]
    if not any(status):
        print(f"passed pair-{case.__name__}", flush=True)
    elif 256 not in status:
        print(f"failed pair-{case.__name__}", *status, flush=True)


for each in CASES:
    if len(sys.argv) < 2 or each.__name__ in sys.argv[1:]:
        run(each)
