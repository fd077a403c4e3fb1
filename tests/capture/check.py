#!/usr/bin/env python3
"""Reads captures (pcapng) of RoCE v2 without any of the project's code: `check.py FILE...`

Prints a line of JSON: how many packets there are and how many of them are cut, the opcodes, the addresses, and what is wrong
with packets: lengths, the checksum of IPv4, headers behind the BTH, the invariant CRC, times that go back by more than a
second. With `--say` before the files, instead a line for each packet: opcode, number, headers and the first bytes of payload.
"""

import collections
import json
import struct
import sys
import zlib


def blocks(data):
    """Type and body of each block."""
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert length >= 12 and length % 4 == 0 and at + length <= len(data), f"a block at {at} has {length} bytes"
        assert struct.unpack_from("<I", data, at + length - 4)[0] == length, f"a block at {at} ends otherwise"
        yield kind, data[at + 8:at + length - 4]
        at += length


def icrc(packet, header):
    """The invariant CRC of a whole packet of IP, by the specification."""
    masked = bytearray(packet[:-4])
    if header == 20:
        masked[1] = masked[8] = 0xFF
        masked[10:12] = b"\xff\xff"
    else:
        masked[0] |= 0x0F
        masked[1:4] = b"\xff\xff\xff"
        masked[7] = 0xFF
    masked[header + 6:header + 8] = b"\xff\xff"
    masked[header + 12] = 0xFF
    return zlib.crc32(b"\xff" * 8 + bytes(masked)).to_bytes(4, "little")


SENDS, WRITES = {0, 1, 2, 3, 4, 5, 0x16, 0x17}, {6, 7, 8, 9, 0xA, 0xB}
# Headers of opcodes of RC: name, form and which opcodes have it, in their order. XRC has the same, behind an XRCETH in what
# asks; UC has sends and writes, UD sends behind a DETH.
HEADERS = [
    ("flush", "!I", {0x1C}),
    ("memory", "!QII", {6, 0xA, 0xB, 0xC, 0x1C, 0x1D}),
    ("atomic", "!QIQQ", {0x13, 0x14}),
    ("answer", "!I", {0xD, 0xF, 0x10, 0x11, 0x12}),
    ("found", "!Q", {0x12}),
    ("imm", "4s", {3, 5, 9, 0xB}),
    ("invalidates", "!I", {0x16, 0x17}),
]
ANSWERS = {0xD, 0xE, 0xF, 0x10, 0x11, 0x12}
WITHOUT_PAYLOAD = {0xC, 0x11, 0x12, 0x13, 0x14, 0x1C}


def headers(packet):
    """Headers and payload of what follows UDP, without its ICRC; None where something else must follow the BTH."""
    code, service, at, found = packet[0] & 0x1F, packet[0] >> 5, 12, {}
    if packet[0] == 0x81:
        return None if len(packet) != 28 else ({}, b"")
    known = {0: SENDS | WRITES | ANSWERS | {0xC, 0x13, 0x14, 0x1C, 0x1D}, 1: (SENDS | WRITES) - {0x16, 0x17}, 3: {4, 5}}
    if code not in known.get(0 if service == 5 else service, ()):
        return None
    forms = [("srq", "!I")] if service == 5 and code not in ANSWERS else [("datagram", "!II")] if service == 3 else []
    for name, form in forms + [(name, form) for name, form, codes in HEADERS if code in codes]:
        if len(packet) < at + struct.calcsize(form):
            return None
        found[name] = struct.unpack_from(form, packet, at)
        at += struct.calcsize(form)
    pad = packet[1] >> 4 & 3
    end = len(packet) - pad
    if end < at or any(packet[end:]) or code in WITHOUT_PAYLOAD and end > at or code == 0x1D and end != at + 8:
        return None
    if found.get("srq", (0,))[0] >> 24 or found.get("flush", (0,))[0] >> 6:
        return None
    return found, packet[at:end]


def line(packet):
    """What there is to say of a packet."""
    found, payload = headers(packet) or ({"wrong": ()}, b"")
    said = [f"{packet[0]:02x} psn {int.from_bytes(packet[9:12], 'big')}"]
    forms = {
        "srq": "srq {0}", "flush": "flush {0}", "memory": "at {0:x} key {1:x} length {2}",
        "atomic": "at {0:x} key {1:x} operands {2:x} {3:x}", "found": "found {0:x}", "invalidates": "invalidates {0:x}",
        "datagram": "datagram {0:x} {1}", "wrong": "wrong", "answer": "answer {0} {1}", "imm": "imm {0}",
    }
    for name, values in found.items():
        if name == "flush":
            values = (f"{values[0] & 15} {values[0] >> 4 & 3}",)
        if name == "answer":
            values = (f"{values[0] >> 24:02x}", values[0] & 0xFFFFFF)
        if name == "imm":
            values = (values[0].hex(),)
        said.append(forms[name].format(*values))
    return " ".join(said + [f"payload {len(payload)} {payload[:8].hex()}"])


def problems(packet):
    """What is wrong with a packet, and its header's length."""
    header = 20 if packet[0] >> 4 == 4 else 40
    if header == 20:
        words = struct.unpack("!10H", packet[:20])
        total = sum(words)
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        if total != 0xFFFF:
            yield "checksum"
        if words[1] != len(packet):
            yield "length"
    if header == 40:
        whole = packet[8:40] + struct.pack("!HH", 17, len(packet) - 40) + packet[40:]
        if sum(struct.unpack(f"!{len(whole) // 2}H", whole)) % 0xFFFF:
            yield "checksum of UDP"
    if header == 40 and struct.unpack_from("!H", packet, 4)[0] + 40 != len(packet):
        yield "length"
    if struct.unpack_from("!H", packet, header + 4)[0] != len(packet) - header:
        yield "length of UDP"
    if icrc(packet, header) != packet[-4:]:
        yield "ICRC"
    if headers(packet[header + 8:-4]) is None:
        yield "headers"


def main():
    """See the module."""
    opcodes, wrong, addresses = collections.Counter(), collections.Counter(), set()
    packets = cut = last = 0
    says = sys.argv[1] == "--say"
    for path in sys.argv[1 + says:]:
        with open(path, "rb") as file:
            data = file.read()
        kinds = []
        for kind, body in blocks(data):
            kinds.append(kind)
            if kind != 6:
                continue
            _, high, low, kept, whole = struct.unpack_from("<5I", body)
            packet, time = body[20:20 + kept], high << 32 | low
            packets += 1
            if time + 10**9 < last:
                wrong["time"] += 1
            last = time
            header = 20 if packet[0] >> 4 == 4 else 40
            addresses.add(packet[12:16].hex() if header == 20 else packet[8:24].hex())
            opcodes[packet[header + 8]] += 1
            if says:
                print(line(packet[header + 8:-4]))
            if kept < whole:
                cut += 1
            else:
                wrong.update(problems(packet))
        assert kinds[:2] == [0x0A0D0D0A, 1] and set(kinds[2:]) <= {6}, f"{path} has other blocks"
    if says:
        return
    print(json.dumps({"packets": packets, "cut": cut, "opcodes": {str(code): opcodes[code] for code in sorted(opcodes)},
                      "addresses": sorted(addresses), "wrong": dict(wrong)}))


main()
