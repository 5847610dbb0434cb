"""Two hosts on one machine (tools/two_hosts.py): a proof where it can run, and its parts."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import two_hosts
from paths import ROOT

HOROVOD = importlib.util.find_spec("horovod") is not None


@pytest.mark.slow
@pytest.mark.tf
@pytest.mark.timeout(900)
@pytest.mark.skipif(not HOROVOD, reason="Horovod is not built: run scripts/build_horovod.py")
def test_two_hosts_train_and_a_cut_link_fails_the_far_rank() -> None:
    reason = two_hosts.cannot_run()
    if reason:
        pytest.skip(reason)
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "two_hosts.py")],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert two_hosts.cannot_run() is None, "nothing of it is left in the way of the next"


@pytest.mark.parametrize("tool", two_hosts.TOOLS)
def test_what_is_missing_is_said_and_nothing_is_tried(tool, monkeypatch, capsys) -> None:
    monkeypatch.setattr(two_hosts.os, "geteuid", lambda: 0)
    monkeypatch.setattr(two_hosts, "find", lambda name: None if name == tool else f"/bin/{name}")
    assert two_hosts.main([]) == two_hosts.CANNOT
    assert capsys.readouterr().out == f"two_hosts: cannot run here: {tool} is not installed\n"


def test_without_root_it_is_not_tried(monkeypatch) -> None:
    monkeypatch.setattr(two_hosts.os, "geteuid", lambda: 1000)
    assert two_hosts.cannot_run() == "making network namespaces needs root"


def record(folder: Path, epochs: int, status: str, rank: int | None = None) -> None:
    failure = None if status == "ok" else {"rank": rank, "message": "x"}
    content = {
        "attempt": 1,
        "cell": {"axes": {"ranks": 2, "epochs": epochs}},
        "status": status,
        "failure": failure,
        "run": {"world_size": 2} if status == "ok" else None,
    }
    (folder / f"{epochs}.json").write_text(json.dumps(content))


def test_it_passes_only_if_everything_is_as_it_should_be(tmp_path) -> None:
    record(tmp_path, 5, "ok")
    record(tmp_path, 1_000_000, "crash", rank=1)
    assert two_hosts.judged(tmp_path, [1, 1], 31.0, []) == []
    assert two_hosts.judged(tmp_path, [2, 0], 31.0, []) != []
    assert two_hosts.judged(tmp_path, [1, 1], 61.0, []) != []
    assert two_hosts.judged(tmp_path, [1, 1], 31.0, ["ncf-two"]) != []
    record(tmp_path, 1_000_000, "crash", rank=0)
    assert two_hosts.judged(tmp_path, [1, 1], 31.0, []) != []
    record(tmp_path, 1_000_000, "timeout")
    record(tmp_path, 5, "crash", rank=0)
    assert len(two_hosts.judged(tmp_path, [1, 1], 31.0, [])) == 2


def test_the_committed_record_is_of_a_run_that_passed() -> None:
    assert two_hosts.judged(ROOT / "results" / "two-hosts" / "records", [1, 1], 0.0, []) == []
