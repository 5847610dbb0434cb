"""The wrapper that slows a trainer down, and the script that tries the gate on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from paths import ROOT

SLOW = (sys.executable, str(ROOT / "tests" / "support" / "slow_launcher.py"))
BUSY = "import sys, time\nwhile time.process_time() < 0.4: pass\nprint(time.process_time())"


def run(share, *command, **options):
    return subprocess.run(
        [*SLOW, str(share), *command], capture_output=True, text=True, check=False, **options
    )


def test_a_stopped_trainer_takes_its_share_of_time_more():
    timed = f"import time\nstart = time.monotonic()\n{BUSY}\nprint(time.monotonic() - start)"

    done = run(0.5, sys.executable, "-c", timed, "train")

    used, passed = map(float, done.stdout.split())
    # However busy the machine is, wall time is only ever longer.
    assert passed > 1.6 * (used - 0.1)


def test_exit_code_and_signal_are_passed_on():
    assert run(0.2, sys.executable, "-c", "raise SystemExit(4)", "train").returncode == 4
    killed = run(0.2, sys.executable, "-c", "import os; os.kill(os.getpid(), 9)", "train")
    assert killed.returncode == -signal.SIGKILL


def test_what_does_not_train_is_not_slowed():
    done = run(0.99, sys.executable, "-c", "import os; print(os.getpid() == os.getpgrp())", "probe")

    assert done.returncode == 0
    assert done.stdout.strip() == "False", "no group of its own: it took the wrapper's place"


def test_asking_it_to_end_ends_the_trainer():
    code = "import time\nprint('ready', flush=True)\ntime.sleep(60)"
    process = subprocess.Popen([*SLOW, "0.5", sys.executable, "-c", code, "train"], stdout=-1)
    assert process.stdout is not None
    process.stdout.readline()

    process.terminate()

    assert process.wait(20) == -signal.SIGTERM
    process.stdout.close()


@pytest.mark.slow
def test_the_gate_tells_slowed_runs_from_unchanged_ones(tmp_path):
    (tmp_path / "work.toml").write_text(
        '[data]\nsynthetic = "tiny"\n[axes]\nranks = [1]\n[repeat]\nseeds = 8\n'
    )
    stub = f"{sys.executable} {ROOT / 'tests' / 'stub_trainer.py'}"
    command = [sys.executable, str(ROOT / "tools" / "measure_gate.py"), "--suite", "work.toml"]
    command += ["--gates", "1", "--trainer", stub, "--only"]
    environment = os.environ | {"STUB_WORK": "100", "STUB_PYTHON": sys.executable}

    for kind in (["unchanged"], ["slowed", "--keep"]):
        done = subprocess.run(
            [*command, *kind],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        # On a busy machine a slowed gate may stay open; an unchanged one must not cry wolf.
        assert "of 1 gates" in done.stdout, done.stderr
        assert done.returncode == 0 or kind[0] == "slowed"

    lines = (tmp_path / "gate-trial" / "gates.jsonl").read_text().splitlines()
    unchanged, slowed = map(json.loads, lines)
    assert unchanged["verdict"] != "REGRESSED"
    assert slowed["change"] < 0.9
