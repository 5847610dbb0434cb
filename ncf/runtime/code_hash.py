"""Which code made a record: a hash of the modules that a command can reach, and of no others.

Editing the exporter must not make records of training stale, and a changed sampler must.
"""

from __future__ import annotations

import ast
import hashlib
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent

TRAIN, INFER, EVALUATE = "train", "infer", "evaluate"
ENTRIES = {
    TRAIN: ("training.train", "config.train"),
    INFER: ("cli.infer", "config.infer"),
    EVALUATE: ("cli.evaluate",),
}
"""Modules from which a command's code is reached: what runs it, and its defaults."""


@lru_cache
def code_hash(command: str, package: Path = PACKAGE) -> str:
    """12 hex digits over names and contents of the modules that a command reaches, in order."""
    digest = hashlib.sha256()
    for name in reachable(ENTRIES[command], package):
        content = _file(package, name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:12]


def reachable(entries: tuple[str, ...], package: Path = PACKAGE) -> list[str]:
    """Names of the modules of a package that the entries import, directly or not, sorted.

    Imports inside functions count, and so do those for type checking: what a module names, it was
    written against.

    Raises:
        ValueError: an entry does not exist; the hash would silently cover less than it says.
    """
    for entry in entries:
        if not _file(package, entry).is_file():
            raise ValueError(
                f"{entry} is not a module of {package.name}: its code cannot be hashed"
            )
    reached: set[str] = set()
    waiting = ["__init__", *entries]
    while waiting:
        name = waiting.pop()
        if package.joinpath(*name.split(".")).is_dir():
            name += ".__init__"
        if name not in reached and _file(package, name).is_file():
            reached.add(name)
            waiting += sorted(_imported(_file(package, name), package.name))
            # Python runs the __init__ of every package on the way to a module.
            parents = name.split(".")[:-1]
            waiting += [".".join([*parents[:n], "__init__"]) for n in range(1, len(parents) + 1)]
    return sorted(reached)


def _imported(path: Path, package: str) -> set[str]:
    """Modules of the package that a file names in its imports; some may not be modules."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            modules |= {
                alias.name.partition(".")[2] for alias in node.names if _in(alias.name, package)
            }
        elif isinstance(node, ast.ImportFrom) and node.module and _in(node.module, package):
            module = node.module.partition(".")[2]
            # `from package.room import name`: the name is a module or something inside one.
            modules |= {module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)}
    return modules - {""}


def _in(module: str, package: str) -> bool:
    return module.partition(".")[0] == package


def _file(package: Path, name: str) -> Path:
    return package / f"{name.replace('.', '/')}.py"
