"""Starts a trainer and slows it down by stopping its process group for a share of the time.

    python tests/support/slow_launcher.py 0.2 python -m ncf train ...

stands where `python -m ncf` would, so that a gate can be tried on runs that are really slower
without a switch in the product. Only `train` is slowed; its exit code or signal is passed on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

PERIOD_S = 0.1


def main(words: list[str]) -> int:
    share, command = float(words[0]), words[1:]
    if "train" not in command:
        os.execvp(command[0], command)
    process = subprocess.Popen(command, start_new_session=True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: send(process.pid, number))
    while process.poll() is None:
        time.sleep(PERIOD_S * (1 - share))
        send(process.pid, signal.SIGSTOP)
        time.sleep(PERIOD_S * share)
        send(process.pid, signal.SIGCONT)
    code = process.returncode
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no other meaning
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def send(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
        if number not in (signal.SIGSTOP, signal.SIGCONT):
            os.killpg(group, signal.SIGCONT)  # what is stopped does not hear


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
