"""The walls between the rooms (design: `ncf` trains, `bench` orchestrates), read from imports."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted([*ROOT.glob("ncf/*.py"), *ROOT.glob("bench/*.py"), *ROOT.glob("bench/*/*.py")])
MOST_LINES = 330

# Take arrays, records, an rng, a clock; open no file, read no clock, print nothing.
PURE = [
    "ncf/batching",
    "ncf/candidates",
    "ncf/errors",
    "ncf/ids",
    "ncf/known",
    "ncf/metrics",
    "ncf/model",
    "ncf/optimizer",
    "ncf/pulse",
    "ncf/sampling",
    "ncf/sniff",
    "ncf/split",
    "ncf/step",
    "ncf/synthetic",
    "bench/accuracy_plots",
    "bench/communication",
    "bench/comparison",
    "bench/comparison_plots",
    "bench/contrast",
    "bench/document",
    "bench/drawing",
    "bench/errors",
    "bench/grid",
    "bench/group",
    "bench/histogram_plots",
    "bench/hosts",
    "bench/inference",
    "bench/inference_measures",
    "bench/inference_page",
    "bench/inference_plots",
    "bench/inference_published",
    "bench/judge",
    "bench/labels",
    "bench/log_axes",
    "bench/measures",
    "bench/method",
    "bench/plan",
    "bench/plots",
    "bench/published_tables",
    "bench/roofline",
    "bench/roofline_plots",
    "bench/scaling",
    "bench/scaling_curves",
    "bench/scaling_tables",
    "bench/sections",
    "bench/side_by_side",
    "bench/starters",
    "bench/stats",
    "bench/suite",
    "bench/suite_file",
    "bench/suite_report",
    "bench/tables",
    "bench/units",
    "bench/verdicts",
    "bench/whole_plots",
]
EFFECT_MODULES = {"os", "shutil", "signal", "socket", "subprocess", "tempfile", "time", "urllib"}
EFFECT_CALLS = {"open", "print", "input"}
EFFECT_METHODS = {
    "read_text", "write_text", "read_bytes", "write_bytes", "open", "mkdir", "unlink", "savefig",
    "perf_counter", "monotonic", "now", "utcnow", "today", "getenv",
}  # fmt: skip
EFFECTS_ALLOWED = {("bench/drawing", "savefig")}  # into a buffer: a picture becomes bytes


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix()


def imported(path: Path) -> set[str]:
    """Every module that a file imports, anywhere in it, as a dotted name."""
    found: set[str] = set()
    package = path.relative_to(ROOT).parent.as_posix().replace("/", ".")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = ".".join(filter(None, [package if node.level else "", node.module]))
            found.update(f"{module}.{alias.name}" for alias in node.names)
    return found


def top(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def of(package: str) -> list[Path]:
    return [path for path in MODULES if name_of(path).startswith(f"{package}/")]


def test_both_packages_are_seen() -> None:
    assert of("ncf")
    assert of("bench")


@pytest.mark.parametrize("path", of("ncf"), ids=name_of)
def test_the_trainer_never_imports_the_orchestrator(path: Path) -> None:
    assert "bench" not in top(imported(path))


@pytest.mark.parametrize("path", of("bench"), ids=name_of)
def test_the_orchestrator_imports_only_the_record_of_the_trainer(path: Path) -> None:
    used = {name for name in imported(path) if name.split(".")[0] == "ncf"}
    allowed = {name for name in used if name == "ncf.record" or name.startswith("ncf.record.")}
    assert used == allowed


@pytest.mark.parametrize("path", of("bench"), ids=name_of)
def test_the_orchestrator_imports_neither_tensorflow_nor_horovod(path: Path) -> None:
    assert not top(imported(path)) & {"tensorflow", "keras", "horovod"}


def test_the_record_needs_the_standard_library_only() -> None:
    assert top(imported(ROOT / "ncf" / "record.py")) <= sys.stdlib_module_names


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_ranks_and_their_launcher_import_horovod(path: Path) -> None:
    allowed = ("ncf/distributed", "ncf/horovodrun")
    assert "horovod" not in top(imported(path)) or name_of(path) in allowed


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_one_idea_and_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < MOST_LINES


def effects(path: Path) -> set[str]:
    """Names in a file that touch the world: files, clocks, processes, the terminal."""
    found = top(imported(path)) & EFFECT_MODULES
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in EFFECT_CALLS:
                found.add(node.func.id)
            if isinstance(node.func, ast.Attribute) and node.func.attr in EFFECT_METHODS:
                found.add(node.func.attr)
    return {effect for effect in found if (name_of(path), effect) not in EFFECTS_ALLOWED}


def declared_pure() -> list[str]:
    """The list above, and every module whose docstring says that it is pure."""
    said = [
        name_of(path)
        for path in MODULES
        if "Pure" in (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
    ]
    return sorted({*PURE, *said})


@pytest.mark.parametrize("name", declared_pure())
def test_a_pure_module_opens_no_file_reads_no_clock_prints_nothing(name: str) -> None:
    assert effects(ROOT / f"{name}.py") == set()


def test_effects_are_found_where_they_are(tmp_path: Path) -> None:
    source = ROOT / "bench" / "lock.py"
    assert {"os", "time"} <= effects(source)


@pytest.fixture
def without_tensorflow(tmp_path: Path) -> dict[str, str]:
    """An environment whose Python, children included, fails when it imports TensorFlow."""
    for name in ("tensorflow", "keras", "horovod"):
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text(f"raise ImportError('{name} is blocked')\n")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    return os.environ | {"PYTHONPATH": path}


@pytest.mark.parametrize(
    "command",
    [
        *("bench --help", "bench run --help", "bench plan dgx", "bench plan inference"),
        *("ncf --help", "ncf options --json", "ncf infer --help", "ncf recommend --help"),
    ],
)
def test_the_command_lines_answer_without_tensorflow(
    command: str, without_tensorflow: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        env=without_tensorflow,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_blocker_blocks(without_tensorflow: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tensorflow"],
        env=without_tensorflow,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "tensorflow is blocked" in done.stderr
