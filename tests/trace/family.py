"""Opens the library itself and lists devices: in this process, a child, and a thread; again for each line of a FIFO."""

import ctypes
import os
import sys
import threading

verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
verbs.ibv_get_device_list.restype = ctypes.c_void_p
verbs.ibv_free_device_list.argtypes = [ctypes.c_void_p]


def look():
    count = ctypes.c_int()
    verbs.ibv_free_device_list(verbs.ibv_get_device_list(ctypes.byref(count)))


look()
if len(sys.argv) > 1:
    print("ready", flush=True)
    with open(sys.argv[1]) as more:
        for _ in more:
            look()
else:
    for _ in range(3):
        look()
    child = os.fork()
    if child == 0:
        look()
        os._exit(0)
    os.waitpid(child, 0)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
