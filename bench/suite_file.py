"""Suite files: TOML text to a Suite, every mistake one line with its place. Pure."""

from __future__ import annotations

import math
import re
import sys
from typing import TYPE_CHECKING, Any

from bench.errors import UserError
from bench.options import Option, Value, did_you_mean, show
from bench.suite import PRESETS, SOURCES, DataSpec, Suite

if TYPE_CHECKING:
    from collections.abc import Mapping

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]  # 3.10 only

_TABLES = {
    "data": ("synthetic", "source", "seed"),
    "train": None,  # any option of the trainer
    "axes": None,
    "repeat": ("seeds", "order_seed"),
    "limits": ("timeout_s",),
    "report": ("published", "margin_hr"),
}
_BY_THE_SWEEP = {
    "data": "the sweep passes the prepared data; see [data] and --data",
    "record": "the sweep passes it",
    "log_path": "the sweep keeps a log of every run",
    "seed": "write [repeat] seeds",
    "amp": 'write precision = "amp"',
    "mode": "a sweep trains",
    "ranks": "write it under [axes], e.g. ranks = [1, 2]",
}
_RANKS = Option("ranks", "int", 1)
_RESERVED_NAMES = ("published", "baselines")  # folders of results/ that are no suite


def parse(text: str, name: str, where: str, options: Mapping[str, Option]) -> Suite:
    """The suite that the text describes.

    Args:
        text: TOML, see design.md section 9.
        name: the suite's name, which is its folder under results/.
        where: the file, for messages.
        options: the trainer's options by name.

    Raises:
        UserError: what is wrong, with the file, the line where known, and the nearest known name.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where}: not TOML: {error}") from None
    return _Reader(text, where, options).suite(name, tables)


class _Reader:
    """Reads one file's tables; knows where each key stands."""

    def __init__(self, text: str, where: str, options: Mapping[str, Option]) -> None:
        self.text, self.where, self.options = text, where, options

    def suite(self, name: str, tables: Mapping[str, Any]) -> Suite:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name in _RESERVED_NAMES:
            raise UserError(
                f"{self.where}: the file's name is the suite's name and its folder under results/; "
                f"{name!r} cannot be one (letters, digits, . _ -)"
            )
        self._known("", tables, (*_TABLES, "title", "description"))
        for table, keys in _TABLES.items():
            if not isinstance(tables.get(table, {}), dict):
                raise self.error("", table, f"[{table}] must be a table")
            self._known(table, tables.get(table, {}), keys)
        repeat, limits, report = (tables.get(key, {}) for key in ("repeat", "limits", "report"))
        train = {
            key: self._option("train", key, value) for key, value in tables.get("train", {}).items()
        }
        return Suite(
            name=name,
            title=self._text(tables, "title") or name,
            description=self._text(tables, "description"),
            data=self._data(tables.get("data")),
            train=train,
            axes=self._axes(tables.get("axes", {}), train),
            seeds=self._seeds(repeat.get("seeds", 1)),
            timeout_s=self._positive("limits", "timeout_s", limits.get("timeout_s", 3600)),
            order_seed=self._whole("repeat", "order_seed", repeat.get("order_seed", 1)),
            published_systems=self._texts("report", "published", report.get("published", [])),
            margin_hr=self._positive("report", "margin_hr", report["margin_hr"])
            if "margin_hr" in report
            else None,
        )

    def _data(self, table: Mapping[str, Any] | None) -> DataSpec:
        if table is None or ("synthetic" in table) == ("source" in table):
            raise self.error(
                "", "data", 'write [data] with either synthetic = "100k" or source = "ml-100k"'
            )
        key, known = ("synthetic", PRESETS) if "synthetic" in table else ("source", SOURCES)
        value = table[key]
        if value not in known:
            raise self.error(
                "data",
                key,
                f"{key} must be one of {', '.join(known)}, not {show(value)}"
                f"{did_you_mean(value, known)}",
            )
        seed = self._whole("data", "seed", table.get("seed", 1))
        return DataSpec(**{key: value}, seed=seed)

    def _axes(
        self, table: Mapping[str, Any], train: Mapping[str, Value]
    ) -> dict[str, tuple[Value, ...]]:
        axes: dict[str, tuple[Value, ...]] = {}
        for key, values in table.items():
            if not isinstance(values, list) or not values:
                raise self.error(
                    "axes", key, f"{key} must be a list with at least one value, not {show(values)}"
                )
            if key in train:
                raise self.error("axes", key, f"{key} stands in [train] too; keep one of the two")
            checked = tuple(self._option("axes", key, value) for value in values)
            for value in checked:
                if checked.count(value) > 1:
                    raise self.error("axes", key, f"{key} lists {show(value)} twice")
                if key == "ranks" and (not isinstance(value, int) or value < 1):
                    raise self.error("axes", key, f"ranks must be 1 or more, not {show(value)}")
            axes[key] = checked
        return axes

    def _option(self, table: str, key: str, value: Any) -> Value:
        known: dict[str, Option] = {k: v for k, v in self.options.items() if k not in _BY_THE_SWEEP}
        if table == "axes":
            known["ranks"] = _RANKS
        if key in known:
            return known[key].check(value, self.place(table, key))
        if key in _BY_THE_SWEEP:
            raise self.error(table, key, f"{key} is not set in [{table}]: {_BY_THE_SWEEP[key]}")
        raise self.error(
            table, key, f"unknown option {key!r} in [{table}]{did_you_mean(key, known)}"
        )

    def _seeds(self, value: Any) -> tuple[int, ...]:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return tuple(range(1, value + 1))
        if isinstance(value, list) and value:
            seeds = tuple(self._whole("repeat", "seeds", seed) for seed in value)
            if len(set(seeds)) == len(seeds):
                return seeds
            raise self.error("repeat", "seeds", f"seeds lists a seed twice: {show(value)}")
        raise self.error(
            "repeat",
            "seeds",
            f"seeds must be a count of at least 1 or a list of seeds, not {show(value)}",
        )

    def _whole(self, table: str, key: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            raise self.error(table, key, f"{key} must be a whole number from 0, not {show(value)}")
        return value

    def _positive(self, table: str, key: str, value: Any) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not value > 0 or not math.isfinite(value):
            raise self.error(table, key, f"{key} must be a number above 0, not {show(value)}")
        return float(value)

    def _text(self, table: Mapping[str, Any], key: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str):
            raise self.error("", key, f"{key} must be a text, not {show(value)}")
        return value

    def _texts(self, table: str, key: str, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(table, key, f"{key} must be a list of texts, not {show(value)}")
        return tuple(value)

    def _known(self, table: str, given: Mapping[str, Any], known: tuple[str, ...] | None) -> None:
        for key in given:
            if known is not None and key not in known:
                inside = f" in [{table}]" if table else ""
                raise self.error(
                    table,
                    key,
                    f"unknown key {key!r}{inside}{did_you_mean(key, known)} "
                    f"(known: {', '.join(known)})",
                )

    def error(self, table: str, key: str, message: str) -> UserError:
        return UserError(f"{self.place(table, key)}: {message}")

    def place(self, table: str, key: str) -> str:
        """`file:line` of a key, or just the file when the line is not found."""
        current = ""
        for number, line in enumerate(self.text.splitlines(), 1):
            header = re.match(r"\s*\[\[?\s*([^\[\]]+?)\s*\]", line)
            if header:
                current = header[1].strip("\"'")
                if not table and current == key:
                    return f"{self.where}:{number}"
            elif current == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return f"{self.where}:{number}"
        return self.where
