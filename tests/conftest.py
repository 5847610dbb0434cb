"""What every test runs under: a quiet TensorFlow, no display, no deadlines."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path

import pytest

# Before anything imports TensorFlow or matplotlib; child processes inherit them.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "Agg")

from hypothesis import settings

# The machine may be busy: a slow example is not a wrong one.
settings.register_profile("default-without-deadline", deadline=None)
settings.load_profile("default-without-deadline")

# nohup, and a shell without job control, start what runs in the background deaf to some signals,
# and so would be every process that a test starts and stops. A handler is not inherited.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

# Their assertions are to be as talkative as those of the tests that call them.
pytest.register_assert_rewrite("pictures", "set_up_clone", "stub_world")


# Folders whose tests start processes that need the cores: one worker runs them one by one, first.
ONE_BY_ONE = ("ranks", "sweep")
# What `make test-fast` leaves out beside TensorFlow's tests: it starts processes, draws pictures,
# or simulates. Paths below this folder.
LONG = (
    *("ranks", "scripts", "tools", "ncf/ranks", "ncf/training", "ncf/cli", "bench/plots"),
    *("bench/cli/test_gate.py", "bench/cli/test_commands.py", "bench/cli/test_errors.py"),
    *("bench/sweep/test_survival.py", "bench/sweep/test_disks.py", "bench/sweep/test_launchers.py"),
    *("bench/report/test_build.py", "bench/report/test_energy.py", "bench/render/test_html.py"),
    *("bench/stats/test_decision.py", "bench/stats/test_sequential.py"),
    *("bench/stats/test_equivalence.py", "bench/analysis/test_contrasts.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each file to one worker, and skip TensorFlow's tests where it is not installed.

    A file's fixtures are made once then. An installed but broken TensorFlow must fail.
    """
    for item in items:
        folder = item.path.parent.name
        group = folder if folder in ONE_BY_ONE else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
        place = item.path.relative_to(Path(__file__).parent)
        if any(place.is_relative_to(long) for long in LONG):
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: item.path.parent.name not in ONE_BY_ONE)
    if importlib.util.find_spec("tensorflow") is not None:
        return
    skip = pytest.mark.skip(reason="TensorFlow is not installed")
    for item in items:
        if "tf" in item.keywords:
            item.add_marker(skip)
