#!/usr/bin/env python3
"""streams.py SECONDS COUNT [ADDRESS]: that many connections of TCP at a time, each of which sends as much as it can.

Without an address: the server, which listens at port 5202. The client prints MiB/s of each, a line each."""

import socket
import sys
import threading
import time

PORT = 5202
CHUNK = b"\1" * 65536


def take(connection, ended):
    while connection.recv(1 << 20):
        pass
    ended.release()


def serve(count):
    ended = threading.Semaphore(0)
    with socket.create_server(("", PORT)) as listener:
        for _ in range(count):
            threading.Thread(target=take, args=(listener.accept()[0], ended), daemon=True).start()
    for _ in range(count):
        ended.acquire()


def stream(connection, seconds, sent, place):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connection.sendall(CHUNK)
        sent[place] += len(CHUNK)


def main():
    seconds, count = float(sys.argv[1]), int(sys.argv[2])
    if len(sys.argv) == 3:
        serve(count)
        return
    connections = [socket.create_connection((sys.argv[3], PORT)) for _ in range(count)]
    sent = [0] * count
    threads = [
        threading.Thread(target=stream, args=(connection, seconds, sent, place))
        for place, connection in enumerate(connections)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for connection in connections:
        connection.close()
    for amount in sent:
        print(f"{amount / seconds / (1 << 20):.3f}")


main()
