"""What tests of others do with the fixture `ironverbs` of the wheel. tests/wheel/run runs this where the wheel is installed."""

import os
import select
import signal
import subprocess

import pytest

import ironverbs as package

# Ends what hangs.
LIMIT = 300
PINGPONG = ["ibv_rc_pingpong", "-g", "0", "-n", "50", "-p"]
FOLDERS = []


def test_two_programs_reach_each_other(ironverbs):
    """A server and a client, each a program of the system."""
    server = ironverbs.start([*PINGPONG, "18601"], listens=18601, stdout=subprocess.PIPE)
    client = ironverbs.run([*PINGPONG, "18601", "127.0.0.1"], stdout=subprocess.PIPE, timeout=LIMIT)
    assert client.returncode == 0
    assert b"50 iters" in client.stdout
    said, _ = server.communicate(timeout=LIMIT)
    assert server.returncode == 0
    assert b"50 iters" in said


def test_an_environment_is_enough(ironverbs):
    """Children have the device by the environment alone, with the options and variables that it had before."""
    said = subprocess.run(["ibv_devices"], env=ironverbs.env, stdout=subprocess.PIPE, check=True, timeout=LIMIT)
    assert b"soft0" in said.stdout
    said = ironverbs.run(["sh", "-c", "echo $MINE"], env={**os.environ, "MINE": "kept"}, stdout=subprocess.PIPE, timeout=LIMIT)
    assert said.stdout == b"kept\n"
    said = ironverbs.run(["ibv_devinfo"], options=["--link-layer", "infiniband"], stdout=subprocess.PIPE, timeout=LIMIT)
    assert b"InfiniBand" in said.stdout


def test_faults_and_captures(ironverbs, tmp_path):
    """A program meets a fault, and what moves is kept."""
    failed = ironverbs.run([*PINGPONG, "18603"], options=["--faults", "register=1"], stderr=subprocess.PIPE, timeout=LIMIT)
    assert failed.returncode == 1
    assert b"Couldn't register MR" in failed.stderr
    packets = tmp_path / "packets.pcapng"
    options = ["--capture", packets]
    server = ironverbs.start([*PINGPONG, "18603"], listens=18603, options=options, stdout=subprocess.DEVNULL)
    client = [*PINGPONG, "18603", "127.0.0.1"]
    assert ironverbs.run(client, options=options, stdout=subprocess.DEVNULL, timeout=LIMIT).returncode == 0
    assert server.wait(timeout=LIMIT) == 0
    # The type of a section's header, and 50 packets of 1024 bytes at least.
    assert packets.read_bytes()[:4] == b"\n\r\r\n"
    assert packets.stat().st_size > 50 * 1024


@pytest.mark.parametrize("which", [1, 2])
def test_each_test_has_a_folder(ironverbs, which):
    """The second test finds neither the folder of the first nor its own the same."""
    folder = ironverbs.env["IRONVERBS_SOFT_DIR"]
    assert ironverbs.run("ibv_devinfo", stdout=subprocess.DEVNULL, timeout=LIMIT).returncode == 0
    assert os.path.isdir(folder)
    FOLDERS.append(folder)
    assert len(set(FOLDERS)) == which
    assert not any(os.path.exists(os.path.dirname(gone)) for gone in FOLDERS[:-1])


LEFT = []


def test_leaves_a_program_running(ironverbs):
    """The shell and its child have the end of a pipe."""
    ours, theirs = os.pipe()
    LEFT.extend([ironverbs.start(["sh", "-c", "sleep infinity & echo; wait"], stdout=theirs), ours])
    os.close(theirs)
    assert os.read(ours, 1) == b"\n"


def test_what_was_left_is_gone():
    """It was killed when the test ended, its child too: nobody has the pipe."""
    process, ours = LEFT
    assert process.returncode == -signal.SIGKILL
    assert select.select([ours], [], [], LIMIT)[0]
    assert os.read(ours, 1) == b""


def test_a_server_that_ends_is_not_waited_for(ironverbs):
    """It never listens."""
    assert ironverbs.start(["false"], listens=18602).wait(timeout=LIMIT) == 1


def test_functions_of_the_package(tmp_path):
    """Without the fixture."""
    env = {**os.environ, "IRONVERBS_SOFT_DIR": str(tmp_path / "device")}
    assert package.run(["sh", "-c", "exit 7"], env=env, timeout=LIMIT).returncode == 7
    assert package.environment("--device", "a,b", env=env)["IRONVERBS_SOFT"] == "a,b"
    with pytest.raises(RuntimeError, match="cannot be opened"):
        package.environment(env={**env, "IRONVERBS_SOFT_DIR": str(tmp_path / "none" / "such")})
    with pytest.raises(TypeError, match="shell"):
        package.run("ibv_devinfo", shell=True)
    assert os.access(package.command(), os.X_OK)
    assert (package.libdir() / "libibverbs.so.1").is_file()
    assert (package.includedir() / "infiniband" / "verbs.h").is_file()
    assert (package.pkgconfigdir() / "ironverbs.pc").is_file()
