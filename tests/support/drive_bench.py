"""`python -m bench` with the stub trainer and the stub horovodrun, for tests."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from bench.__main__ import main
from bench.host import machine as host

TRAINER = (sys.executable, str(HERE / "stub_trainer.py"))


def find_horovodrun() -> tuple[str, None]:
    return str(HERE / "stub_horovodrun"), None


if __name__ == "__main__":
    host.find_horovodrun = find_horovodrun
    sys.exit(main(sys.argv[1:], trainer=TRAINER))
