"""How a rank of several ends: by its own fault at once, by another's fault with patience."""

from __future__ import annotations

import subprocess
import sys

import pytest
from paths import ROOT

from ncf.ranks import job
from ncf.ranks import watchdog as watch


@pytest.mark.parametrize(
    "error",
    [
        type("HorovodInternalError", (RuntimeError,), {})("connection closed"),
        RuntimeError("{{node x}} Horovod has been shut down. This was caused by an exception"),
        RuntimeError("[gloo/transport/tcp/pair.cc:589] Read error: Connection reset by peer"),
        RuntimeError("ncclRemoteError: a call failed possibly due to a network error"),
    ],
)
def test_the_end_of_another_rank_is_known_by_what_horovod_says(error: Exception) -> None:
    assert "\n" not in (job.loss(error) or "\n")


def test_our_own_mistakes_are_no_loss_of_another_rank() -> None:
    for error in (ValueError("bad"), KeyError("user"), MemoryError(), OSError(28, "disk full")):
        assert job.loss(error) is None


def test_a_rank_that_is_stopped_after_it_lost_another_was_interrupted(monkeypatch, capsys) -> None:
    def stopped(_: float) -> None:
        raise KeyboardInterrupt

    lost = RuntimeError("Horovod has been shut down.")
    monkeypatch.setattr(job.time, "sleep", stopped)
    status, reason = job.after(lost)
    assert (status, reason[:42]) == ("interrupted", "stopped by a signal; another rank has gone")
    monkeypatch.setattr(job.time, "sleep", lambda _: None)
    status, reason = job.after(lost)
    assert (status, reason[:21]) == ("error", "another rank has gone")
    assert capsys.readouterr().err.count(watch.LOST_MARK) == 2
    with pytest.raises(ValueError, match="our own"):
        job.after(ValueError("our own"))


def alone(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import sys\nfrom ncf.ranks import job, watchdog as watch\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", **environment},
        check=False,
    )


def test_a_rank_that_raises_says_why_and_leaves_without_asking_the_others() -> None:
    done = alone(
        "import atexit; atexit.register(print, 'orderly shutdown')\n"
        "def train(): raise ValueError('rank 1 fell over')\n"
        "job.run(train)"
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: rank 1 fell over"
    assert "orderly shutdown" not in done.stdout


def test_a_rank_that_lost_another_says_so_in_one_line_and_ends_last() -> None:
    done = alone(
        "watch.GRACE_SECONDS = 0.1\n"
        "def train(): raise RuntimeError('x\\nHorovod has been shut down. y\\nz')\n"
        "sys.exit(job.run(train))"
    )
    assert done.returncode == watch.LOST
    assert done.stderr == ("ncf: lost: another rank has gone (Horovod has been shut down. y)\n")


def test_one_rank_is_not_meddled_with() -> None:
    done = alone("sys.exit(job.run(lambda: 3))", HOROVOD_SIZE="1", HOROVOD_RANK="0")
    assert (done.returncode, done.stderr) == (3, "")
    done = alone("def train(): raise ValueError\njob.run(train)", HOROVOD_SIZE="1")
    assert "orderly" not in done.stdout
    assert done.returncode == 1
