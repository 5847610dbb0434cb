"""The walls between the rooms (`ncf` trains, `bench` orchestrates), read from imports."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT

MODULES = sorted([*ROOT.glob("ncf/**/*.py"), *ROOT.glob("bench/**/*.py")])
MOST_LINES = 600
MOST_MODULES = 12
MOST_AT_THE_TOP = 6

# Lowest first. A module imports its own room and lower layers only, for type checking too.
LAYERS = {
    "bench": [
        {"errors", "files", "process"},
        {"suite", "suites", "stats"},
        {"render"},
        {"records", "host"},
        {"analysis"},
        {"published", "foreign", "gate", "sweep"},
        {"plots"},
        {"report"},
        {"cli"},
        {"__main__"},
    ],
    "ncf": [
        {"errors", "record", "metrics", "horovodrun", "runtime"},
        {"config", "readers", "ranks"},
        {"data"},
        {"sampling"},
        {"model"},
        {"evaluation"},
        {"training"},
        {"cli"},
        {"__main__"},
    ],
}

# Take arrays, records, an rng, a clock; open no file, read no clock, print nothing.
PURE = [
    "bench/analysis/aggregate",
    "bench/analysis/contrasts",
    "bench/analysis/grid",
    "bench/analysis/group",
    "bench/analysis/labels",
    "bench/analysis/metrics",
    "bench/errors",
    "bench/plots/accuracy",
    "bench/plots/bars",
    "bench/plots/inference",
    "bench/plots/places",
    "bench/plots/roofline",
    "bench/plots/run_order",
    "bench/plots/scaling",
    "bench/plots/style",
    "bench/published/comparability",
    "bench/published/scaling_model",
    "bench/published/scaling_tables",
    "bench/published/tables",
    "bench/records/identity",
    "bench/render/units",
    "bench/report/document",
    "bench/report/inference",
    "bench/report/published",
    "bench/report/resources",
    "bench/report/sections",
    "bench/report/training",
    "bench/report/verdicts",
    "bench/stats/summary",
    "bench/stats/welch",
    "bench/suite/model",
    "bench/suite/parse",
    "bench/sweep/classify_failure",
    "bench/sweep/plan",
    "bench/sweep/plan_text",
    "ncf/data/candidates",
    "ncf/data/split",
    "ncf/data/synthetic",
    "ncf/errors",
    "ncf/metrics",
    "ncf/model/neumf",
    "ncf/model/optimizer",
    "ncf/model/reference",
    "ncf/ranks/heartbeat",
    "ncf/readers/ids",
    "ncf/readers/sniff",
    "ncf/sampling/batching",
    "ncf/sampling/sampler",
]
EFFECT_MODULES = {"os", "shutil", "signal", "socket", "subprocess", "tempfile", "time", "urllib"}
EFFECT_CALLS = {"open", "print", "input"}
EFFECT_METHODS = {
    "read_text", "write_text", "read_bytes", "write_bytes", "open", "mkdir", "unlink", "savefig",
    "perf_counter", "monotonic", "now", "utcnow", "today", "getenv",
}  # fmt: skip
EFFECTS_ALLOWED = {("bench/plots/style", "savefig")}  # into a buffer: a picture becomes bytes


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


@pytest.mark.parametrize("name", ["ncf/record.py", "bench/process/reaper.py"])
def test_record_and_reaper_need_the_standard_library_only(name: str) -> None:
    assert top(imported(ROOT / name)) <= sys.stdlib_module_names


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_ranks_and_their_launcher_import_horovod(path: Path) -> None:
    allowed = ("ncf/ranks/horovod", "ncf/horovodrun")
    assert "horovod" not in top(imported(path)) or name_of(path) in allowed


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_a_chapter_not_a_book(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def rooms() -> list[Path]:
    return sorted({path.parent for path in MODULES})


@pytest.mark.parametrize("room", rooms(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_room_can_be_overlooked(room: Path) -> None:
    most = MOST_AT_THE_TOP if room.parent == ROOT else MOST_MODULES
    assert len(list(room.glob("*.py"))) <= most


def room_of(name: str) -> str:
    """`bench.stats.welch` lies in the room `stats`, `bench.errors` in one of its own."""
    return name.split(".")[1]


def upward(path: Path) -> set[str]:
    """Imports of a module that run against the order of the rooms."""
    package, here, *_ = (*path.relative_to(ROOT).with_suffix("").parts, "")
    level = {room: at for at, rooms in enumerate(LAYERS[package]) for room in rooms}
    level["__init__"] = len(LAYERS[package])  # the package's public functions, imported lazily
    found = {name for name in imported(path) if name.startswith(f"{package}.")}
    return {
        name
        for name in found
        if room_of(name) in level
        and room_of(name) != here
        and level[room_of(name)] >= level.get(here, -1)
    }


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_run_one_way(path: Path) -> None:
    assert upward(path) == set()


@pytest.mark.parametrize("package", LAYERS)
def test_every_room_has_its_layer(package: str) -> None:
    listed = {room for rooms in LAYERS[package] for room in rooms}
    there = {path.stem for path in (ROOT / package).iterdir() if path.suffix == ".py"}
    there |= {path.parent.name for path in (ROOT / package).glob("*/__init__.py")}
    assert there - {"__init__"} == listed


def test_an_import_against_the_order_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    room = tmp_path / "bench" / "stats"
    room.mkdir(parents=True)
    (room / "welch.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from bench.cli.run import run\n"
    )
    assert upward(room / "welch.py") == {"bench.cli.run.run"}


def circles(package: str) -> list[set[str]]:
    """Rooms that import each other, by any way around."""
    arrows: dict[str, set[str]] = {}
    for path in of(package):
        here = path.relative_to(ROOT).with_suffix("").parts[1]
        names = {name for name in imported(path) if name.startswith(f"{package}.")}
        arrows.setdefault(here, set()).update({room_of(name) for name in names} - {here})
    reach = dict(arrows)
    for _ in arrows:
        reach = {
            room: set().union(targets, *(reach.get(target, set()) for target in targets))
            for room, targets in reach.items()
        }
    return [
        {room, other} for room in reach for other in reach[room] if room in reach.get(other, ())
    ]


@pytest.mark.parametrize("package", LAYERS)
def test_no_rooms_import_each_other(package: str) -> None:
    assert circles(package) == []


TESTS = sorted((ROOT / "tests").glob("**/test_*.py"))


def test_no_test_file_imports_another() -> None:
    names = {path.stem for path in TESTS}
    assert {
        (path.name, name)
        for path in TESTS
        for name in imported(path)
        if {part for part in name.split(".")[:-1] if part.startswith("test_")} & names
    } == set()


def test_names_of_tests_are_short_sentences() -> None:
    names = {
        node.name
        for path in TESTS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert {name for name in names if len(name) > 70} == set()


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
    source = ROOT / "bench" / "sweep" / "lock.py"
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


@pytest.mark.long
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
