"""Sweeps whose disk is full or read-only, and that are killed besides; on a disk of memory."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from stub_world import World, close, wait_until

from bench.records.store import load


def mount(*words):
    return subprocess.run(["mount", *words], capture_output=True, check=False).returncode == 0


def unmounted(folder):
    subprocess.run(["umount", str(folder)], capture_output=True, check=False)
    return not folder.is_mount()


@pytest.fixture
def disk(tmp_path):
    """A file system of 4 MiB; needs the right to mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not (hasattr(os, "geteuid") and os.geteuid() == 0):
        pytest.skip("only root may mount a file system")
    if not mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)):
        pytest.skip("no file system may be mounted here")
    yield Disk(folder)
    assert wait_until(lambda: unmounted(folder))


ANY = ("ok", "interrupted", "crash", "invalid")
"""A run whose log or record found no room has failed, and is tried again."""


class Disk:
    def __init__(self, folder: Path):
        self.folder, self.ballast = folder, folder / "ballast"

    def leave(self, free: int) -> None:
        """Fill the disk but for so many bytes."""
        found = os.statvfs(self.folder)
        size = max(0, found.f_bavail * found.f_frsize - free)
        with self.ballast.open("wb") as file:
            file.write(b"x" * size)

    def read_only(self) -> None:
        # a killed sweep's trainer may hold its log open for a moment longer
        assert wait_until(lambda: mount("-o", "remount,ro", str(self.folder)))

    def mend(self) -> None:
        assert mount("-o", "remount,rw", str(self.folder))
        self.ballast.unlink(missing_ok=True)


def world_on(disk, seeds=3):
    world = World(disk.folder / "w", seeds)
    world.env["STUB_TRACE"] = str(disk.folder.parent / "trace")
    world.finish("stub.toml", "--no-report", "--seeds", "1")  # with room, so that data are there
    return world


def test_a_full_disk_is_one_line_and_loses_nothing(disk):
    world = world_on(disk)
    stored = len(load(world.results).attempts)
    disk.leave(20_000)
    code, _, err = world.finish()
    assert code == 2
    assert err.count("\n") == 1
    assert "No space left on device (stored records are intact; fix this and rerun)" in err
    loaded = load(world.results)
    assert loaded.unreadable == []
    assert stored <= len(loaded.attempts) < 12
    disk.mend()
    assert world.finish()[0] == 0
    world.check_complete(3, ANY)


def test_results_that_cannot_be_written_are_one_line_and_start_nothing(disk):
    world = world_on(disk)
    runs = (disk.folder.parent / "trace").read_text()
    disk.read_only()
    code, _, err = world.finish()
    assert code == 2
    assert err.count("\n") == 1
    assert "Read-only file system" in err
    assert world.finish("status", "stub.toml")[0] == 0, "what is stored can still be looked at"
    disk.mend()
    assert (disk.folder.parent / "trace").read_text() == runs
    assert world.finish()[0] == 0
    world.check_complete(3)


def survive(disk, kills, seeds, seed):
    """Kill sweeps at random moments, most of them with a disk that is full or read-only.

    Counts kills by the state of the disk, and the sweeps that ended by themselves because of it.
    """
    rng, world = random.Random(seed), world_on(disk, seeds)
    counted = Counter({"full": 0, "read-only": 0, "sound": 0})
    while counted["full"] + counted["read-only"] + counted["sound"] < kills:
        state = rng.choice(["full", "full", "read-only", "sound"])
        if state == "full":
            disk.leave(rng.randrange(0, 60_000))
        elif state == "read-only":
            disk.read_only()
        process = world.start(STUB_SECONDS="0.1")
        try:
            _, err = process.communicate(timeout=rng.uniform(0.05, 1.5))
        except subprocess.TimeoutExpired:
            process.kill()
            close(process)
            counted[state] += 1
        else:
            assert "Traceback" not in err
            counted["ended by themselves"] += 1
            if process.returncode == 0:  # complete: begin another sweep
                disk.mend()
                world.check_complete(seeds, ANY)
                shutil.rmtree(world.folder)
                world = world_on(disk, seeds)
                counted["sweeps"] += 1
                continue
        disk.mend()
        assert load(world.results).unreadable == []
    code, out, err = world.finish()
    assert code == 0, out + err
    world.check_complete(seeds, ANY)
    return counted


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sweep_survives_300_kills_and_disk_errors(disk):
    counted = survive(disk, kills=300, seeds=15, seed=4)
    print(counted)
    assert min(counted["full"], counted["read-only"], counted["sound"]) > 20
