"""A layer's processes: each layer is a session, so that whatever it starts is found, its process groups included."""

import os
import signal
import subprocess
import time

SHELLS = ("bash", "sh")


def start(command, log, environment):
    """The first process of a session that runs a command of the table, its output into a file."""
    with open(log, "wb") as output:
        return subprocess.Popen(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
        )  # fmt: skip


def ended(process):
    """(status, seconds of CPU) of a process that has ended, else None."""
    pid, status, used = os.wait4(process.pid, os.WNOHANG)
    if pid == 0:
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime


def _left(sessions):
    """(pid, name) of each process of these sessions."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as opened:
                before, _, after = opened.read().rpartition(")")
        except OSError:
            continue  # it has ended
        state, _, _, session = after.split()[:4]
        if int(session) in sessions and state != "Z":
            yield int(pid), before.partition("(")[2]


def end(processes):
    """Ends all that these sessions have.

    Shells get time to clean up; but first what they wait for has to end, and the first process of a PID namespace is deaf
    to SIGTERM.
    """
    sessions = {process.pid for process in processes}
    steps = [signal.SIGTERM, None, None, "others", *[None] * 9, signal.SIGKILL]
    for step in steps:
        left = list(_left(sessions)) if sessions else []
        if not left:
            return
        for pid, name in left:
            if step and (step != "others" or name not in SHELLS):
                try:
                    os.kill(pid, signal.SIGKILL if step == "others" else step)
                except ProcessLookupError:
                    pass
        time.sleep(0.3)
