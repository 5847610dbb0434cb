"""Suite files: TOML text to a Suite, every mistake one line with its place. Pure."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.errors import UserError, did_you_mean, show
from bench.suite.model import (
    DEVICES,
    LAUNCHERS,
    MEASURES,
    ORDERS,
    PRESETS,
    SOURCES,
    SPREAD,
    Contrast,
    DataSpec,
    HostList,
    Margin,
    Rule,
    Suite,
    cells,
)
from bench.suite.trainer_options import INFER, TRAIN, Option, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]  # 3.10 only

_TABLES = {
    "data": ("synthetic", "source", "seed"),
    "train": None,  # any option of the trainer
    "infer": None,  # instead of [train]: the suite times inference
    "axes": None,
    "repeat": ("seeds", "order", "order_seed"),
    "limits": ("timeout_s", "retries", "max_failures", "cooldown_s"),
    "run": ("launcher", "measures", "hosts"),
    "requires": ("device",),
    "telemetry": ("enabled", "interval_s"),
    "report": ("published", "margin_hr", "without", "compare", "equivalence"),
    "gate": ("margin_speed", "metrics", "looks"),
}
_LISTS = ("exclude", "override")  # [[exclude]], [[override]]
SET_BY_SWEEP = {
    "data": "the sweep passes the prepared data; see [data] and --data",
    "record": "the sweep passes it",
    "log_path": "the sweep keeps a log of every run",
    "tensorboard": "the runs of a sweep would share one folder; give it to `ncf train` by hand",
    "seed": "write [repeat] seeds",
    "amp": 'write precision = "amp"',
    "mode": "a sweep trains",
    "json": "the sweep reads the record",
    "ranks": "write it under [axes], e.g. ranks = [1, 2]",
}
_RANKS = Option("ranks", "int", 1)
_RESERVED_NAMES = ("published", "baselines")  # folders of results/ that are no suite


def parse(
    text: str,
    name: str,
    where: str,
    options: Mapping[str, Option],
    infer: Mapping[str, Option] | None = None,
    *,
    metrics: Sequence[str],
    flags: Sequence[str],
) -> Suite:
    """The suite that the text describes.

    Args:
        text: TOML, see docs/running.md.
        name: the suite's name, which is its folder under results/.
        where: the file, for messages.
        options: the options of `ncf train` by name.
        infer: those of `ncf infer`, where the trainer has it.
        metrics: names that `[gate] metrics` may use.
        flags: names that `[report] without` may use.

    Raises:
        UserError: what is wrong, with the file, the line where known, and the nearest known name.
    """
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where}: not TOML: {error}") from None
    reader = _Reader(text, where, options, metrics, flags)
    if "infer" in tables:
        if "train" in tables:
            raise reader.error("", "infer", "write [train] or [infer], not both")
        if not infer:
            raise reader.error("", "infer", "this trainer has no command infer")
        reader.command, reader.options = INFER, infer
    return reader.suite(name, tables)


class Reader:
    """Reads values of one file; knows where each key stands."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where

    def whole(self, table: str, key: str, value: Any, least: int = 0) -> int:
        """A whole number that fits 64 bits."""
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
            raise self.error(
                table, key, f"{key} must be a whole number from {least}, not {show(value)}"
            )
        return value

    def positive(self, table: str, key: str, value: Any) -> float:
        """A finite number above 0."""
        if not _finite(value) or not value > 0:
            raise self.error(table, key, f"{key} must be a number above 0, not {show(value)}")
        return float(value)

    def seconds(self, table: str, key: str, value: Any) -> float:
        """A finite number from 0."""
        if not _finite(value) or value < 0:
            raise self.error(table, key, f"{key} must be a number from 0, not {show(value)}")
        return float(value)

    def text_of(self, table: Mapping[str, Any], key: str) -> str:
        """A text at the top of the file; empty if it is not there."""
        value = table.get(key, "")
        if not isinstance(value, str):
            raise self.error("", key, f"{key} must be a text, not {show(value)}")
        return value

    def texts(self, table: str, key: str, value: Any) -> tuple[str, ...]:
        """A list of texts."""
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(table, key, f"{key} must be a list of texts, not {show(value)}")
        return tuple(value)

    def counts(self, table: str, key: str, value: Any) -> tuple[int, ...]:
        """A list of whole numbers from 1."""
        if not isinstance(value, list):
            raise self.error(table, key, f"{key} must be a list of numbers, not {show(value)}")
        return tuple(self.whole(table, key, item, 1) for item in value)

    def one_of(self, table: str, key: str, value: Any, known: Sequence[str]) -> str:
        """One of a few words."""
        if value not in known:
            raise self.error(
                table,
                key,
                f"{key} must be one of {', '.join(known)}, not {show(value)}"
                f"{did_you_mean(value, known)}",
            )
        return str(value)

    def yes_or_no(self, table: str, key: str, value: Any) -> bool:
        """True or false."""
        if not isinstance(value, bool):
            raise self.error(table, key, f"{key} must be true or false, not {show(value)}")
        return value

    def known(self, table: str, given: Mapping[str, Any], known: Sequence[str] | None) -> None:
        """Refuse the first key that is not known; None knows all."""
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
        """A mistake at its place."""
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


def _finite(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)


def contrasts(
    reader: Reader,
    key: str,
    given: Any,
    axes: Mapping[str, tuple[Value, ...]],
    option: Callable[[str, str, Any], Value],
) -> tuple[Contrast, ...]:
    """`"formulation"`, `{ formulation = "reference" }`, or a list of such.

    A name alone takes the axis' first value for the reference. A table of several axes is one
    comparison of their combinations.

    Args:
        reader: knows where the key stands.
        key: compare or equivalence.
        given: what the file says.
        axes: of the suite.
        option: checks a value of an axis.

    Raises:
        UserError: no axis of this suite, or a value that the axis does not have.
    """
    found = []
    for one in given if isinstance(given, list) else [given]:
        named = {one: None} if isinstance(one, str) else one
        if not isinstance(named, dict) or not named:
            raise reader.error(
                "report",
                key,
                f'{key} must name axes, e.g. {key} = "precision" or {key} = '
                f'{{ precision = "fp32" }}, not {show(one)}',
            )
        found.append(
            Contrast({a: _level(reader, key, a, v, axes, option) for a, v in named.items()})
        )
    return tuple(found)


def _level(
    reader: Reader,
    key: str,
    axis: str,
    value: Any,
    axes: Mapping[str, tuple[Value, ...]],
    option: Callable[[str, str, Any], Value],
) -> Value:
    """The reference's value of one axis."""
    if axis not in axes or len(axes[axis]) < 2:
        several = [name for name, values in axes.items() if len(values) > 1]
        raise reader.error(
            "report",
            key,
            f"{key} names {axis!r}, which is no axis with several values"
            f"{did_you_mean(axis, several)} (there are: {', '.join(several) or 'none'})",
        )
    if value is None:
        return axes[axis][0]
    checked = option("axes", axis, value)
    if checked not in axes[axis]:
        raise reader.error("report", key, f"{axis} has no value {show(value)} in [axes]")
    return checked


def check(
    reader: Reader, key: str, found: Sequence[Contrast], grid: Sequence[Mapping[str, Value]]
) -> None:
    """Refuse a comparison of which the grid has no pair of cells.

    Args:
        reader: knows where the key stands.
        key: compare or equivalence.
        found: the comparisons.
        grid: the axes of every cell.

    Raises:
        UserError: excludes have left no reference, or nothing beside it.
    """
    for contrast in found:
        references = {contrast.others(axes) for axes in grid if contrast.is_reference(axes)}
        tested = {contrast.others(axes) for axes in grid if not contrast.is_reference(axes)}
        if not references & tested:
            named = ", ".join(f"{name} = {show(v)}" for name, v in contrast.reference.items())
            raise reader.error(
                "report", key, f"no cell differs from one with {named} in {key}'s axes alone"
            )


def margin(reader: Reader, report: Mapping[str, Any]) -> Margin | None:
    """`margin_hr`: a number above 0, or "sd"."""
    given = report.get("margin_hr")
    if given is None or given == SPREAD:
        return given
    if isinstance(given, str):
        raise reader.error(
            "report", "margin_hr", f'margin_hr must be a number above 0 or "sd", not {show(given)}'
        )
    return reader.positive("report", "margin_hr", given)


class _Reader(Reader):
    """Reads one file's tables."""

    def __init__(
        self,
        text: str,
        where: str,
        options: Mapping[str, Option],
        metrics: Sequence[str],
        flags: Sequence[str],
    ) -> None:
        super().__init__(text, where)
        self.options, self.command = options, TRAIN
        self.metrics, self.flags = tuple(metrics), tuple(flags)

    def suite(self, name: str, tables: Mapping[str, Any]) -> Suite:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name in _RESERVED_NAMES:
            raise UserError(
                f"{self.where}: the file's name is the suite's name and its folder under results/; "
                f"{name!r} cannot be one (letters, digits, . _ -)"
            )
        self.known("", tables, (*_TABLES, *_LISTS, "title", "description"))
        for table, keys in _TABLES.items():
            if not isinstance(tables.get(table, {}), dict):
                raise self.error("", table, f"[{table}] must be a table")
            self.known(table, tables.get(table, {}), keys)
        repeat, limits, report = (tables.get(key, {}) for key in ("repeat", "limits", "report"))
        run, telemetry, gate = (tables.get(key, {}) for key in ("run", "telemetry", "gate"))
        train = {
            key: self._option(self.command, key, value)
            for key, value in tables.get(self.command, {}).items()
        }
        axes = self._axes(tables.get("axes", {}), train)
        seeds, by_precision = self._all_seeds(repeat.get("seeds", 1), axes, train)
        grid = Suite(
            name=name,
            title=self.text_of(tables, "title") or name,
            description=self.text_of(tables, "description"),
            data=self._data(tables.get("data")),
            train=train,
            axes=axes,
            seeds=seeds,
            timeout_s=self.positive("limits", "timeout_s", limits.get("timeout_s", 3600)),
            order_seed=self.whole("repeat", "order_seed", repeat.get("order_seed", 1)),
            published_systems=self.texts("report", "published", report.get("published", [])),
            margin_hr=margin(self, report),
            seeds_by_precision=by_precision,
            order=self.one_of("repeat", "order", repeat.get("order", "blocks"), ORDERS),
            retries=self.whole("limits", "retries", limits.get("retries", 0)),
            max_failures=self.whole("limits", "max_failures", limits["max_failures"], 1)
            if "max_failures" in limits
            else None,
            cooldown_s=self.seconds("limits", "cooldown_s", limits.get("cooldown_s", 0)),
            launcher=self.one_of("run", "launcher", run.get("launcher", "auto"), LAUNCHERS),
            hosts=HostList.parse(self.text_of(run, "hosts"), f"{self.place('run', 'hosts')}: hosts")
            if "hosts" in run
            else None,
            command=self.command,
            measures=self.one_of("run", "measures", run.get("measures", "speed"), MEASURES),
            device=self.one_of("requires", "device", tables["requires"]["device"], DEVICES)
            if tables.get("requires")
            else None,
            telemetry_s=self.positive("telemetry", "interval_s", telemetry.get("interval_s", 1.0))
            if self.yes_or_no("telemetry", "enabled", telemetry.get("enabled", True))
            else None,
            margin_speed=self._optional("gate", "margin_speed", gate),
            gate_metrics=tuple(
                self.one_of("gate", "metrics", name, self.metrics)
                for name in self.texts("gate", "metrics", gate.get("metrics", []))
            ),
            gate_looks=self.counts("gate", "looks", gate.get("looks", [])),
            without=tuple(
                self.one_of("report", "without", flag, self.flags)
                for flag in self.texts("report", "without", report.get("without", []))
            ),
            compare=contrasts(self, "compare", report.get("compare", []), axes, self._option),
            equivalence=contrasts(
                self, "equivalence", report.get("equivalence", []), axes, self._option
            ),
        )
        overrides = tuple(self._override(grid, rule) for rule in self._list(tables, "override"))
        excludes = tuple(self._exclude(grid, rule) for rule in self._list(tables, "exclude"))
        found = replace(grid, overrides=overrides, excludes=excludes)
        axes_of_cells = [cell.axes for cell in cells(found)]
        if not axes_of_cells:
            raise self.error("", "exclude", "the excludes leave no cell of the grid")
        check(self, "compare", found.compare, axes_of_cells)
        check(self, "equivalence", found.equivalence, axes_of_cells)
        return found

    def _data(self, table: Mapping[str, Any] | None) -> DataSpec:
        if table is None or ("synthetic" in table) == ("source" in table):
            raise self.error(
                "", "data", 'write [data] with either synthetic = "100k" or source = "ml-100k"'
            )
        key, known = ("synthetic", PRESETS) if "synthetic" in table else ("source", SOURCES)
        value = self.one_of("data", key, table[key], known)
        seed = self.whole("data", "seed", table.get("seed", 1))
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
                where = f"[{self.command}]"
                raise self.error("axes", key, f"{key} stands in {where} too; keep one of the two")
            checked = tuple(self._option("axes", key, value) for value in values)
            for value in checked:
                if checked.count(value) > 1:
                    raise self.error("axes", key, f"{key} lists {show(value)} twice")
                if key == "ranks" and (not isinstance(value, int) or value < 1):
                    raise self.error("axes", key, f"ranks must be 1 or more, not {show(value)}")
            axes[key] = checked
        return axes

    def _list(self, tables: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
        """The tables of `[[name]]`."""
        found = tables.get(name, [])
        if not isinstance(found, list) or not all(
            isinstance(item, dict) and item for item in found
        ):
            raise self.error("", name, f"write each one as a table of its own under [[{name}]]")
        return found

    def _when(self, grid: Suite, table: str, given: Any) -> dict[str, tuple[Value, ...]]:
        """Axis values that choose cells: one value or a list of them for each axis."""
        if not isinstance(given, dict) or not given:
            raise self.error(table, "when", "when must name axes, e.g. when = { ranks = 8 }")
        when: dict[str, tuple[Value, ...]] = {}
        for key, value in given.items():
            if key not in grid.axes:
                raise self.error(
                    table,
                    key,
                    f"{key!r} is no axis of this suite{did_you_mean(key, list(grid.axes))} "
                    f"(axes: {', '.join(grid.axes) or 'none'})",
                )
            nested = isinstance(grid.axes[key][0], tuple)
            several = isinstance(value, list) and (not nested or isinstance(value[0], list))
            chosen = tuple(
                self._option("axes", key, item) for item in (value if several else [value])
            )
            for item in chosen:
                if item not in grid.axes[key]:
                    raise self.error(table, key, f"{key} has no value {show(item)} in [axes]")
            when[key] = chosen
        return when

    def _exclude(self, grid: Suite, given: Mapping[str, Any]) -> Rule:
        rule = Rule(self._when(grid, "exclude", given))
        if not any(rule.matches(cell.axes) for cell in cells(grid)):
            raise self.error("exclude", next(iter(given)), "this exclude matches no cell")
        return rule

    def _override(self, grid: Suite, given: Mapping[str, Any]) -> Rule:
        when = self._when(grid, "override", given.get("when"))
        options = {}
        for key, value in given.items():
            if key in ("when", "timeout_s"):
                continue
            if key in grid.axes:
                raise self.error("override", key, f"{key} is an axis; an override cannot set it")
            options[key] = self._option("override", key, value)
        seconds = self._optional("override", "timeout_s", given)
        if not options and seconds is None:
            raise self.error("override", "when", "this override changes nothing")
        return Rule(when, options, seconds)

    def _option(self, table: str, key: str, value: Any) -> Value:
        known: dict[str, Option] = {k: v for k, v in self.options.items() if k not in SET_BY_SWEEP}
        if table == "axes" and self.command == TRAIN:
            known["ranks"] = _RANKS
        elif table == "axes" and key == "ranks":
            raise self.error(table, key, "ranks is no axis of inference, which has 1 rank")
        if key in known:
            return known[key].check(value, self.place(table, key))
        if key in SET_BY_SWEEP:
            raise self.error(table, key, f"{key} is not set in [{table}]: {SET_BY_SWEEP[key]}")
        raise self.error(
            table, key, f"unknown option {key!r} in [{table}]{did_you_mean(key, known)}"
        )

    def _all_seeds(
        self, value: Any, axes: Mapping[str, tuple[Value, ...]], train: Mapping[str, Value]
    ) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]]]:
        """All seeds, and those of each precision where the file tells them apart."""
        if not isinstance(value, dict):
            return self._seeds(value), {}
        precisions = axes.get("precision", (train.get("precision", "fp32"),))
        self.known("repeat.seeds", value, [str(name) for name in precisions])
        for name in precisions:
            if name not in value:
                raise self.error("repeat", "seeds", f"seeds says nothing about {name}")
        by_precision = {name: self._seeds(item) for name, item in value.items()}
        longest_first = sorted(by_precision.values(), key=len, reverse=True)
        return tuple(dict.fromkeys(seed for some in longest_first for seed in some)), by_precision

    def _seeds(self, value: Any) -> tuple[int, ...]:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
            return tuple(range(1, value + 1))
        if isinstance(value, list) and value:
            seeds = tuple(self.whole("repeat", "seeds", seed) for seed in value)
            if len(set(seeds)) == len(seeds):
                return seeds
            raise self.error("repeat", "seeds", f"seeds lists a seed twice: {show(value)}")
        raise self.error(
            "repeat",
            "seeds",
            f"seeds must be a count of at least 1 or a list of seeds, not {show(value)}",
        )

    def _optional(self, table: str, key: str, given: Mapping[str, Any]) -> float | None:
        return self.positive(table, key, given[key]) if key in given else None
