"""A plain TCP program: echo.py serve|ask ADDRESS PORT. What is asked comes back; 100 questions of growing length."""

import socket
import sys

what, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])


def take(peer, length):
    got = b""
    while len(got) < length:
        piece = peer.recv(length - len(got))
        if not piece:
            return got
        got += piece
    return got


if what == "serve":
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(4)
    while True:
        peer, _ = listener.accept()
        while head := take(peer, 4):
            peer.sendall(head + take(peer, int.from_bytes(head, "big"))[::-1])
        peer.close()
else:
    peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    peer.connect((address, port))
    for n in range(100):
        text = bytes(i * n & 255 for i in range(n * 97))
        peer.sendall(len(text).to_bytes(4, "big") + text)
        assert take(peer, 4) == len(text).to_bytes(4, "big")
        assert take(peer, len(text)) == text[::-1]
    peer.close()
    with open("/proc/self/maps") as maps:
        assert "librspreload" in maps.read()
    with open("/proc/net/tcp") as connections:
        assert f":{port:04X} " not in connections.read(), "it went by TCP"
    print("echoed")
