"""Running the steps of the Horovod build: output into a log, a sign of life, the first error."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from horovod_tools import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


def cache_folder() -> Path:
    """${NCF_BENCH_CACHE:-${XDG_CACHE_HOME:-~/.cache}/ncf-bench}."""
    if os.environ.get("NCF_BENCH_CACHE"):
        return Path(os.environ["NCF_BENCH_CACHE"]).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ncf-bench"


@contextmanager
def log_file() -> Iterator[Path]:
    """A log that outlives the build."""
    try:
        folder = cache_folder() / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"horovod-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        path.touch()
    except OSError:
        path = Path(tempfile.mkstemp(prefix="horovod-", suffix=".log")[1])
    yield path


def logged(
    command: Sequence[str], log: Path, env: Mapping[str, str], cwd: Path | None = None
) -> None:
    """Run a command with its output in the log, saying every 30 s that it is still at work.

    Raises:
        BuildError: it failed; what the log says of it has been printed.
    """
    start = time.monotonic()
    with log.open("ab") as sink:
        sink.write(f"\n$ {shlex.join(command)}\n".encode())
        sink.flush()
        child = subprocess.Popen(
            command,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            while not ended(child, seconds=30):
                say(f"still at it, {time.monotonic() - start:.0f} s")
        except BaseException:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()
            raise
    if child.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        print("\n".join(gist(lines)), file=sys.stderr)
        what = "setup.py" if "setup.py" in command else "pip"
        raise BuildError(f"{what} failed with exit code {child.returncode}; whole log: {log}")


def gist(lines: Sequence[str]) -> list[str]:
    """The lines of a failed build to show: from its first error on, else the last ones.

    The end of the log is Python's traceback, far from what the compiler said.
    """
    error = re.compile(r"\berror:|CMake Error|^ERROR")
    first = next((at for at, line in enumerate(lines) if error.search(line)), None)
    return list(lines[-20:] if first is None else lines[max(0, first - 2) : first + 18])


def ended(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the child ended within so many seconds."""
    try:
        child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def say(text: str) -> None:
    """One line of progress."""
    print(f"build_horovod: {text}", flush=True)
