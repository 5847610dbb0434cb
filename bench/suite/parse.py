"""Suite files: TOML text to a Suite, every mistake one line with its place. Pure."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

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
    Rule,
    Suite,
    cells,
)
from bench.suite.trainer_options import INFER, TRAIN, Option, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Check = Callable[["_Reader", str, str, Any], Any]

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found,unused-ignore]  # 3.10 only

SET_BY_SWEEP = {
    "data": "the sweep passes the prepared data; see [data] and --data",
    "record": "the sweep passes it",
    "log_path": "the sweep keeps a log of every run",
    "tensorboard": "the runs of a sweep would share one folder; use it with `ncf train`",
    "seed": "write [repeat] seeds",
    "amp": 'write precision = "amp"',
    "mode": "a sweep trains",
    "json": "the sweep reads the record",
    "ranks": "write it under [axes], e.g. ranks = [1, 2]",
}
"""Options of the trainer that a suite cannot set, and what to do instead."""
_RANKS = Option("ranks", "int", 1)
_RESERVED_NAMES = ("published", "baselines")  # folders of results/ that belong to no suite
_RULES = ("exclude", "override")  # [[exclude]], [[override]]


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
        UserError: a mistake, with the file, the line where known, and the nearest valid name.
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


def _must(
    what: str, valid: Callable[[Any], bool], convert: Callable[[Any], Any] = lambda value: value
) -> Check:
    """A check of one value: it must be `what`."""

    def check(reader: _Reader, table: str, key: str, value: Any) -> Any:
        if not valid(value):
            raise reader.error(table, key, f"{key} must be {what}, not {show(value)}")
        return convert(value)

    return check


def _integer(least: int = 0) -> Check:
    """An integer that fits 64 bits."""
    return _must(
        f"a whole number from {least}", lambda value: type(value) is int and least <= value < 2**63
    )


def _one_of(choices: Callable[[_Reader], Sequence[str]] | Sequence[str]) -> Check:
    def check(reader: _Reader, table: str, key: str, value: Any) -> str:
        words = choices(reader) if callable(choices) else choices
        if value not in words:
            near = did_you_mean(value, words)
            message = f"{key} must be one of {', '.join(words)}, not {show(value)}{near}"
            raise reader.error(table, key, message)
        return str(value)

    return check


def _list_of(check_item: Check, what: str) -> Check:
    is_list = _must(f"a list of {what}", lambda value: isinstance(value, list))

    def check(reader: _Reader, table: str, key: str, value: Any) -> tuple[Any, ...]:
        items = is_list(reader, table, key, value)
        return tuple(check_item(reader, table, key, item) for item in items)

    return check


def _finite(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _hosts(reader: _Reader, table: str, key: str, value: Any) -> HostList:
    return HostList.parse(_text(reader, table, key, value), f"{reader.place(table, key)}: hosts")


_text = _must("a text", lambda value: isinstance(value, str))
_texts = _must(
    "a list of texts",
    lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    tuple,
)
_flag = _must("true or false", lambda value: isinstance(value, bool))
_positive = _must("a number above 0", lambda value: _finite(value) and value > 0, float)
_not_negative = _must("a number from 0", lambda value: _finite(value) and value >= 0, float)
_margin = _must(
    f'a number above 0 or "{SPREAD}"',
    lambda value: value == SPREAD or (_finite(value) and value > 0),
    lambda value: value if value == SPREAD else float(value),
)


class _Key(NamedTuple):
    """A key of a table: its check, and its field of Suite; empty: the key's own name."""

    check: Check
    field: str = ""


_KEYS: dict[str, dict[str, _Key | None] | None] = {
    "": {"title": _Key(_text), "description": _Key(_text)},
    "data": {"synthetic": None, "source": None, "seed": None},
    "train": None,  # any option of the trainer
    "infer": None,  # instead of [train]: the suite times inference
    "axes": None,
    "repeat": {"seeds": None, "order": _Key(_one_of(ORDERS)), "order_seed": _Key(_integer())},
    "limits": {
        "timeout_s": _Key(_positive),
        "retries": _Key(_integer()),
        "max_failures": _Key(_integer(1)),
        "cooldown_s": _Key(_not_negative),
    },
    "run": {
        "launcher": _Key(_one_of(LAUNCHERS)),
        "measures": _Key(_one_of(MEASURES)),
        "hosts": _Key(_hosts),
    },
    "requires": {"device": _Key(_one_of(DEVICES))},
    "telemetry": {"interval_s": _Key(_positive, "telemetry_s"), "enabled": _Key(_flag)},
    "report": {
        "published": _Key(_texts, "published_systems"),
        "margin_hr": _Key(_margin),
        "without": _Key(_list_of(_one_of(lambda reader: reader.flags), "texts")),
        "compare": None,
        "equivalence": None,
    },
    "gate": {
        "margin_speed": _Key(_positive),
        "metrics": _Key(_list_of(_one_of(lambda reader: reader.metrics), "texts"), "gate_metrics"),
        "looks": _Key(_list_of(_integer(1), "numbers"), "gate_looks"),
    },
}
"""Every key of a suite file; a key without a check, or a table without keys, is read by a method of
its own."""


class _Reader:
    """Reads one file's tables; knows the line of each key."""

    def __init__(
        self,
        text: str,
        where: str,
        options: Mapping[str, Option],
        metrics: Sequence[str],
        flags: Sequence[str],
    ) -> None:
        self.text, self.where = text, where
        self.options, self.command = options, TRAIN
        self.metrics: Sequence[str] = metrics
        self.flags: Sequence[str] = flags

    def suite(self, name: str, tables: Mapping[str, Any]) -> Suite:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or name in _RESERVED_NAMES:
            raise UserError(
                f"{self.where}: the file's name is the suite's name and its folder under results/; "
                f"{name!r} cannot be one (letters, digits, . _ -)"
            )
        fields = self._fields(tables)
        if not fields.pop("enabled", True):
            fields["telemetry_s"] = None
        options = {
            key: self._option(self.command, key, value)
            for key, value in tables.get(self.command, {}).items()
        }
        axes = self._axes(tables.get("axes", {}), options)
        repeat, report = tables.get("repeat", {}), tables.get("report", {})
        seeds, by_precision = self._all_seeds(repeat.get("seeds", 1), axes, options)
        suite = Suite(
            name=name,
            data=self._data(tables.get("data")),
            train=options,
            axes=axes,
            seeds=seeds,
            seeds_by_precision=by_precision,
            command=self.command,
            **{**fields, "title": fields.get("title") or name},
        )
        overrides = tuple(self._override(suite, rule) for rule in self._list(tables, "override"))
        excludes = tuple(self._exclude(suite, rule) for rule in self._list(tables, "exclude"))
        suite = replace(suite, overrides=overrides, excludes=excludes)
        grid = [cell.axes for cell in cells(suite)]
        if not grid:
            raise self.error("", "exclude", "[[exclude]] removes every cell")
        return replace(
            suite,
            compare=self._contrasts("compare", report.get("compare", []), axes, grid),
            equivalence=self._contrasts("equivalence", report.get("equivalence", []), axes, grid),
        )

    def _fields(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Fields of Suite that the keys in _KEYS hold; refuses unknown tables and keys."""
        self._only("", tables, (*filter(None, _KEYS), *_RULES, *(_KEYS[""] or ())))
        fields = {}
        for table, keys in _KEYS.items():
            values = tables.get(table, {}) if table else tables
            if not isinstance(values, dict):
                raise self.error("", table, f"[{table}] must be a table")
            if keys is None:
                continue
            if table:
                self._only(table, values, tuple(keys))
            for name, key in keys.items():
                if key is not None and name in values:
                    fields[key.field or name] = key.check(self, table, name, values[name])
        return fields

    def _only(self, table: str, values: Mapping[str, Any], allowed: Sequence[str]) -> None:
        """Refuse the first key that is not allowed."""
        for key in values:
            if key not in allowed:
                inside = f" in [{table}]" if table else ""
                near = did_you_mean(key, allowed)
                message = f"unknown key {key!r}{inside}{near} (known: {', '.join(allowed)})"
                raise self.error(table, key, message)

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

    def _data(self, table: Mapping[str, Any] | None) -> DataSpec:
        if table is None or ("synthetic" in table) == ("source" in table):
            raise self.error(
                "", "data", 'write [data] with either synthetic = "100k" or source = "ml-100k"'
            )
        key, names = ("synthetic", PRESETS) if "synthetic" in table else ("source", SOURCES)
        value = _one_of(names)(self, "data", key, table[key])
        seed = _integer()(self, "data", "seed", table.get("seed", 1))
        return DataSpec(**{key: value}, seed=seed)

    def _axes(
        self, table: Mapping[str, Any], options: Mapping[str, Value]
    ) -> dict[str, tuple[Value, ...]]:
        axes: dict[str, tuple[Value, ...]] = {}
        for key, values in table.items():
            if not isinstance(values, list) or not values:
                raise self.error(
                    "axes", key, f"{key} must be a list with at least one value, not {show(values)}"
                )
            if key in options:
                message = f"{key} is also set in [{self.command}]; keep one of the two"
                raise self.error("axes", key, message)
            checked = tuple(self._option("axes", key, value) for value in values)
            for value in checked:
                if checked.count(value) > 1:
                    raise self.error("axes", key, f"{key} lists {show(value)} twice")
                if key == "ranks" and (not isinstance(value, int) or value < 1):
                    raise self.error("axes", key, f"ranks must be 1 or more, not {show(value)}")
            axes[key] = checked
        return axes

    def _option(self, table: str, key: str, value: Any) -> Value:
        """The value of an option or axis, in the option's own type."""
        options = {name: o for name, o in self.options.items() if name not in SET_BY_SWEEP}
        if table == "axes" and self.command == TRAIN:
            options["ranks"] = _RANKS
        elif table == "axes" and key == "ranks":
            raise self.error(table, key, "ranks is not an axis of inference, which has 1 rank")
        if key in options:
            return options[key].check(value, self.place(table, key))
        if key in SET_BY_SWEEP:
            raise self.error(table, key, f"{key} is not set in [{table}]: {SET_BY_SWEEP[key]}")
        near = did_you_mean(key, options)
        raise self.error(table, key, f"unknown option {key!r} in [{table}]{near}")

    def _all_seeds(
        self, value: Any, axes: Mapping[str, tuple[Value, ...]], options: Mapping[str, Value]
    ) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]]]:
        """All seeds, and those of each precision where the file has a table of them."""
        if not isinstance(value, dict):
            return self._seeds(value), {}
        precisions = axes.get("precision", (options.get("precision", "fp32"),))
        self._only("repeat.seeds", value, [str(name) for name in precisions])
        for name in precisions:
            if name not in value:
                raise self.error("repeat", "seeds", f"seeds has no entry for {name}")
        by_precision = {name: self._seeds(item) for name, item in value.items()}
        longest_first = sorted(by_precision.values(), key=len, reverse=True)
        return tuple(dict.fromkeys(seed for some in longest_first for seed in some)), by_precision

    def _seeds(self, value: Any) -> tuple[int, ...]:
        if type(value) is int and value >= 1:
            return tuple(range(1, value + 1))
        if not isinstance(value, list) or not value:
            message = "seeds must be a count of at least 1 or a list of seeds, not"
            raise self.error("repeat", "seeds", f"{message} {show(value)}")
        seeds: tuple[int, ...] = _list_of(_integer(), "seeds")(self, "repeat", "seeds", value)
        if len(set(seeds)) < len(seeds):
            raise self.error("repeat", "seeds", f"seeds lists a seed twice: {show(value)}")
        return seeds

    def _list(self, tables: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
        """The tables of `[[name]]`."""
        rules = tables.get(name, [])
        if not isinstance(rules, list) or not all(
            isinstance(rule, dict) and rule for rule in rules
        ):
            raise self.error("", name, f"write each one as a table of its own under [[{name}]]")
        return rules

    def _when(self, suite: Suite, table: str, values: Any) -> dict[str, tuple[Value, ...]]:
        """Axis values that choose cells: one value or a list of them for each axis."""
        if not isinstance(values, dict) or not values:
            raise self.error(table, "when", "when must name axes, e.g. when = { ranks = 8 }")
        when: dict[str, tuple[Value, ...]] = {}
        for key, value in values.items():
            if key not in suite.axes:
                near, axes = did_you_mean(key, suite.axes), ", ".join(suite.axes) or "none"
                message = f"{key!r} is not an axis of this suite{near} (axes: {axes})"
                raise self.error(table, key, message)
            nested = isinstance(suite.axes[key][0], tuple)
            several = isinstance(value, list) and (not nested or isinstance(value[0], list))
            items = value if several else [value]
            when[key] = tuple(
                self._axis_value(table, key, suite.axes[key], item, key) for item in items
            )
        return when

    def _axis_value(
        self, table: str, key: str, values: Sequence[Value], item: Any, axis: str
    ) -> Value:
        """One of the values of an axis, used in this table under this key."""
        value = self._option("axes", axis, item)
        if value not in values:
            raise self.error(table, key, f"{axis} has no value {show(item)} in [axes]")
        return value

    def _exclude(self, suite: Suite, values: Mapping[str, Any]) -> Rule:
        rule = Rule(self._when(suite, "exclude", values))
        if not any(rule.matches(cell.axes) for cell in cells(suite)):
            raise self.error("exclude", next(iter(values)), "this exclude matches no cell")
        return rule

    def _override(self, suite: Suite, values: Mapping[str, Any]) -> Rule:
        when = self._when(suite, "override", values.get("when"))
        options, seconds = {}, None
        for key, value in values.items():
            if key in suite.axes:
                raise self.error("override", key, f"{key} is an axis; an override cannot set it")
            if key == "timeout_s":
                seconds = _positive(self, "override", key, value)
            elif key != "when":
                options[key] = self._option("override", key, value)
        if not options and seconds is None:
            raise self.error("override", "when", "this override changes nothing")
        return Rule(when, options, seconds)

    def _contrasts(
        self,
        key: str,
        values: Any,
        axes: Mapping[str, tuple[Value, ...]],
        grid: Sequence[Mapping[str, Value]],
    ) -> tuple[Contrast, ...]:
        """`"formulation"`, `{ formulation = "reference" }`, or a list of such.

        A name alone takes the axis' first value for the reference. A table of several axes is one
        comparison of their combinations.

        Raises:
            UserError: not an axis of several values, a value that the axis does not have, or the
                excludes have removed the reference or everything to compare with it.
        """
        contrasts = []
        for value in values if isinstance(values, list) else [values]:
            reference = {value: None} if isinstance(value, str) else value
            if not isinstance(reference, dict) or not reference:
                message = (
                    f'{key} must name axes, e.g. {key} = "precision" or {key} = '
                    f'{{ precision = "fp32" }}, not {show(value)}'
                )
                raise self.error("report", key, message)
            contrast = Contrast({a: self._level(key, a, v, axes) for a, v in reference.items()})
            references = {contrast.others(axes) for axes in grid if contrast.is_reference(axes)}
            tested = {contrast.others(axes) for axes in grid if not contrast.is_reference(axes)}
            if not references & tested:
                named = ", ".join(f"{name} = {show(v)}" for name, v in contrast.reference.items())
                message = f"no cell differs from one with {named} in {key}'s axes alone"
                raise self.error("report", key, message)
            contrasts.append(contrast)
        return tuple(contrasts)

    def _level(
        self, key: str, axis: str, value: Any, axes: Mapping[str, tuple[Value, ...]]
    ) -> Value:
        """The reference's value of one axis."""
        several = [name for name, values in axes.items() if len(values) > 1]
        if axis not in several:
            near, names = did_you_mean(axis, several), ", ".join(several) or "none"
            message = f"{key} names {axis!r}, which is not an axis with several values"
            raise self.error("report", key, f"{message}{near} (there are: {names})")
        if value is None:
            return axes[axis][0]
        return self._axis_value("report", key, axes[axis], value, axis)
