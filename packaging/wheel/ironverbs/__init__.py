"""RDMA programs on any Linux machine, without RDMA hardware.

The package brings the command ``ironverbs`` with its libraries, and these functions around it. A program that is started by
`run` or `start` has a software device, as one that is started by ``ironverbs run``.
"""

import os
import subprocess
from importlib import metadata
from pathlib import Path

__all__ = ["command", "environment", "includedir", "libdir", "pkgconfigdir", "run", "start"]
__version__ = metadata.version("ironverbs")

_FOLDER = Path(__file__).resolve().parent


def command():
    """The path of the command ``ironverbs``, an ELF program."""
    return libdir() / "ironverbs"


def libdir():
    """The folder of libibverbs.so.1 and libibumad.so.3, for LD_LIBRARY_PATH."""
    return _FOLDER / "lib"


def includedir():
    """The folder of ``infiniband/verbs.h``, for a compiler's ``-I``."""
    return _FOLDER / "include"


def pkgconfigdir():
    """The folder of ironverbs.pc and ironverbs-umad.pc, for PKG_CONFIG_PATH."""
    return _FOLDER / "pkgconfig"


def environment(*options, env=None):
    """An environment in which programs have the software device, by which child processes get it too.

    :param options: options of ``ironverbs run``, as ``"--link-layer", "infiniband"``
    :param env: the environment to begin with, by default this process's
    :raises RuntimeError: the device cannot work here; the message says why
    """
    env = dict(os.environ if env is None else env)
    asked = [command(), "run", *options, "--print", "--", "true"]
    said = subprocess.run(asked, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if said.returncode:
        raise RuntimeError(os.fsdecode(said.stderr).strip())
    # One NAME=VALUE in a line.
    env.update(line.split("=", 1) for line in os.fsdecode(said.stdout).split("\n") if line)
    return env


def run(program, *, options=(), **arguments):
    """Runs a program on the software device to its end, and returns what `subprocess.run` does.

    :param program: the program and its arguments, or its name alone
    :param options: options of ``ironverbs run``
    :param arguments: keyword arguments of `subprocess.run`, but for ``shell`` and ``executable``
    """
    return subprocess.run(_behind(program, options), **_plain(arguments))


def start(program, *, options=(), **arguments):
    """Starts a program on the software device, and returns a `subprocess.Popen`; parameters are those of `run`."""
    return subprocess.Popen(_behind(program, options), **_plain(arguments))


def _behind(program, options):
    if isinstance(program, (str, bytes, os.PathLike)):
        program = [program]
    return [command(), "run", *options, "--", *program]


def _plain(arguments):
    # With either, another program than the command would be started.
    for name in ("shell", "executable"):
        if arguments.get(name):
            raise TypeError(f"{name} is of no use behind `ironverbs run`")
    return arguments
