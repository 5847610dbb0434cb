"""Print a fresh constraints.txt, resolved for real on every supported Python.

    python tools/pin_constraints.py python3.10 python3.11 python3.12 python3.13 > new.txt

Each interpreter resolves the project with its cpu and dev extras, and what Horovod needs, in a
throw-away virtual environment; nothing is installed. Where all agree a pin stands alone, else it
carries the Python versions it is for. Review the difference, run `make test-all`, then commit.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent
HOROVOD_NEEDS = ("cloudpickle", "packaging", "psutil", "pyyaml")
TWINS = {"tensorflow-cpu": "tensorflow"}
"""The same release under a second name; one pin holds for both."""
HEADER = """\
# What was tested, on CPython 3.10 to 3.13: the project, its cpu and dev extras, Horovod's needs.
# Set-up installs with these pins, except beside a TensorFlow that the machine already had.
# Made by tools/pin_constraints.py. The NVIDIA libraries of the cuda extra follow TensorFlow's
# own bounds: they were not tested here.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Resolve with each interpreter and print the merged pins."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="interpreters to resolve for")
    pins: dict[str, dict[str, str]] = {}
    for python in parser.parse_args(arguments).pythons:
        version, resolved = resolve(python)
        print(f"Python {version}: {len(resolved)} packages", file=sys.stderr)
        for name, pin in resolved.items():
            pins.setdefault(name, {})[version] = pin
    versions = sorted({v for by in pins.values() for v in by}, key=_numbers)
    print(HEADER + "\n".join(lines(pins, versions)))
    return 0


def resolve(python: str) -> tuple[str, dict[str, str]]:
    """The interpreter's version ("3.11") and the newest set of packages that fits it."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", "--upgrade", "pip"], check=True)
        report = Path(folder) / "report.json"
        wanted = [f"{ROOT}[cpu,dev]", *HOROVOD_NEEDS]
        dry_run = ["install", "--dry-run", "--ignore-installed", "--report", str(report)]
        subprocess.run([*pip, *dry_run, *wanted], check=True, stdout=subprocess.DEVNULL)
        data = json.loads(report.read_text(encoding="utf-8"))
    found = {normal(i["metadata"]["name"]): i["metadata"]["version"] for i in data["install"]}
    found.pop("ncf-bench")
    found.update({twin: found[name] for name, twin in TWINS.items() if name in found})
    return ".".join(data["environment"]["python_version"].split(".")[:2]), found


def lines(pins: Mapping[str, Mapping[str, str]], versions: Sequence[str]) -> list[str]:
    """One constraint a line, sorted by name; `pins` is name -> Python version -> release."""
    result = []
    for name in sorted(pins):
        releases = sorted(set(pins[name].values()), key=lambda r: (_numbers(r), r))
        for release in releases:
            chosen = [v for v in versions if pins[name].get(v) == release]
            marker = "" if chosen == list(versions) else f"; {_marker(chosen, versions)}"
            result.append(f"{name}=={release}{marker}")
    return result


def normal(name: str) -> str:
    """A distribution's name as the package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _marker(chosen: Sequence[str], versions: Sequence[str]) -> str:
    """The environment marker for a run of neighbouring versions, or for each one by name."""
    start = versions.index(chosen[0])
    if list(chosen) != list(versions[start : start + len(chosen)]):
        return " or ".join(f"python_version == '{v}'" for v in chosen)
    if len(chosen) == 1 and 0 < start < len(versions) - 1:
        return f"python_version == '{chosen[0]}'"
    end = start + len(chosen)
    bounds = []
    if start > 0:
        bounds.append(f"python_version >= '{chosen[0]}'")
    if end < len(versions):
        bounds.append(f"python_version < '{versions[end]}'")
    return " and ".join(bounds)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


if __name__ == "__main__":
    sys.exit(main())
