"""The fixture ``ironverbs``: a software device of one test, for the programs that it starts."""

import os
import shutil
import signal
import tempfile
import time

import pytest

import ironverbs as package


class Device:
    """A software device that no other test's programs reach.

    Programs of one test reach each other by it as over a network.
    """

    def __init__(self, folder):
        # A folder of this test's own, in which its processes meet.
        self._own = {"IRONVERBS_SOFT_DIR": os.path.join(folder, "device")}
        self._started = []
        self._env = None

    @property
    def env(self):
        """An environment for `subprocess`, by which what is started has the device: a new dictionary each time."""
        if self._env is None:
            self._env = package.environment(env=self._with(None))
        return dict(self._env)

    def run(self, program, *, env=None, **arguments):
        """Runs a program to its end, as `ironverbs.run`; ``env`` is what it has beside the device."""
        return package.run(program, env=self._with(env), **arguments)

    def start(self, program, *, env=None, listens=None, **arguments):
        """Starts a program, as `ironverbs.start`: what still runs when the test ends is killed, with its children.

        :param listens: the TCP port by which the program meets its peer: this returns once somebody listens there, or the
            program has ended
        """
        arguments.setdefault("start_new_session", True)
        process = package.start(program, env=self._with(env), **arguments)
        self._started.append((process, arguments["start_new_session"]))
        while listens is not None and process.poll() is None and listens not in _listening():
            time.sleep(0.01)
        return process

    def _with(self, env):
        env = {**(os.environ if env is None else env), **self._own}
        # A group's folder would be another one.
        env.pop("IRONVERBS_SOFT_GROUP", None)
        return env

    def _end(self):
        for process, own_group in reversed(self._started):
            # Until it is waited for, no other process has its number.
            if process.poll() is None:
                if own_group:
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:
                        # What is left in the buffer has no reader.
                        pass
            process.wait()


def _listening():
    """The TCP ports of this network namespace at which somebody listens."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not os.path.exists(table):
            # A kernel without IPv6.
            continue
        with open(table, encoding="ascii") as lines:
            next(lines)
            # The local address with the port, the remote one, the state: 0A is LISTEN.
            fields = [line.split()[1:4] for line in lines]
        ports.update(int(local.rsplit(":", 1)[1], 16) for local, _, state in fields if state == "0A")
    return ports


@pytest.fixture
def ironverbs():
    """A software device of this test: ``ironverbs.run([...])``, ``ironverbs.start([...])``, ``ironverbs.env``."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="ironverbs-test-", dir=memory)
    device = Device(folder)
    try:
        yield device
    finally:
        try:
            device._end()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
