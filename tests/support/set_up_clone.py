"""A clone of the shell scripts with a stand-in for Python's venv and pip, for tests of set-up.

The stand-in answers `-c` and scripts with the real Python, less its packages; it makes
environments and "installs" by writing lines to a log. So every path of the shell scripts runs in
a fraction of a second.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BASE = """#!/bin/sh
case "$*" in
  *_base_executable*) echo "$FAKES/${0##*/}"; exit 0 ;;
  "-m venv "*)
    echo "venv $*" >>"$FAKES/log"
    [ -z "$FAKE_VENV" ] || { echo "$FAKE_VENV"; exit 1; }
    for folder; do :; done
    mkdir -p "$folder/bin"
    { echo '#!/bin/sh'; echo "MADE_BY='$FAKES/${0##*/}'"; cat "$FAKES/venv-python"; } \
      >"$folder/bin/python"
    chmod +x "$folder/bin/python"; exit 0 ;;
esac
PYTHONPATH="$FAKES/base-packages" exec "$REAL" -S "$@"
"""
VENV_PYTHON = """
case "$*" in
  *_base_executable*) echo "$MADE_BY"; exit 0 ;;
  "-m pip "*) echo "pip $*" >>"$FAKES/log"; exit "${FAKE_PIP:-0}" ;;
  *build_horovod.py*) echo "horovod $*" >>"$FAKES/log"; exit "${FAKE_HOROVOD:-0}" ;;
  "-m bench "*) echo "bench $PWD $*" >>"$FAKES/log"; echo table; exit "${FAKE_BENCH:-0}" ;;
  *"import pip"*) exit 0 ;;
esac
exec "$REAL" -S "$@"
"""


@dataclass
class Clone:
    """A copy of the shell scripts in a folder with a blank in its name, and its stand-ins."""

    root: Path
    fakes: Path
    env: dict[str, str] = field(default_factory=dict)

    def start(self, script: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("NCF_BENCH_", "PYTHON"))}
        return subprocess.run(
            ["bash", str(self.root / script), *arguments],
            env=kept | self.env | env,
            cwd=self.fakes,
            capture_output=True,
            text=True,
            check=False,
        )

    def set_up(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.start("scripts/setup.sh", *arguments, **env)

    def steps(self) -> list[str]:
        """The first words of what was done since the last question."""
        log = self.fakes / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def kinds(self) -> list[str]:
        return [line.split()[0] for line in self.steps()]

    @property
    def stamp(self) -> Path:
        return self.root / ".venv" / ".ncf-bench-stamp"


@pytest.fixture(name="clone")
def a_clone(tmp_path: Path) -> Clone:
    root = tmp_path / "a clone"
    (root / "scripts").mkdir(parents=True)
    for name in (
        "run_benchmarks.sh",
        "pyproject.toml",
        "constraints.txt",
        "scripts/setup.sh",
        "scripts/build_horovod.py",
        "scripts/horovod_recipe.py",
        "scripts/horovod_log.py",
        "scripts/horovod_tools.py",
    ):
        shutil.copy(ROOT / name, root / name)
    fakes = tmp_path / "fakes"
    (fakes / "base-packages").mkdir(parents=True)
    for name, text in (("python3", BASE), ("venv-python", VENV_PYTHON), ("nvidia-smi", "")):
        (fakes / name).write_text(text or "#!/bin/sh\nexit 9\n")
        (fakes / name).chmod(0o755)
    path = f"{fakes}{os.pathsep}{os.environ['PATH']}"
    return Clone(root, fakes, {"FAKES": str(fakes), "REAL": sys.executable, "PATH": path})


def one_error_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("set-up: error: ")
    return line
