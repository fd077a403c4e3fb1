#!/usr/bin/env python3
"""Reads captures (pcapng) of RoCE v2 without any of the project's code: `check.py FILE...`

Prints a line of JSON: how many packets there are and how many of them are cut, the opcodes, the addresses, and what is wrong
with packets: lengths, the checksum of IPv4, the invariant CRC, times that go back by more than a second.
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


def main():
    """See the module."""
    opcodes, wrong, addresses = collections.Counter(), collections.Counter(), set()
    packets = cut = last = 0
    for path in sys.argv[1:]:
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
            if kept < whole:
                cut += 1
            else:
                wrong.update(problems(packet))
        assert kinds[:2] == [0x0A0D0D0A, 1] and set(kinds[2:]) <= {6}, f"{path} has other blocks"
    print(json.dumps({"packets": packets, "cut": cut, "opcodes": {str(code): opcodes[code] for code in sorted(opcodes)},
                      "addresses": sorted(addresses), "wrong": dict(wrong)}))


main()
