"""DLLogger lines: one JSON object each, under the names that NVIDIA's parsers look for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ncf.errors import UserError
from ncf.training import epoch_log as tensorboard

if TYPE_CHECKING:
    from pathlib import Path


def test_a_line_has_dlloggers_fields() -> None:
    text = tensorboard.line("LOG", 3, {"hr@10": 0.95}, now=1_600_000_000.5, elapsed=12.25)
    prefix, _, payload = text.partition(" ")
    assert prefix == "DLLL"
    assert json.loads(payload) == {
        "timestamp": "1600000000.500000",
        "datetime": "2020-09-13 12:26:40.500000",
        "elapsedtime": "12.250000",
        "type": "LOG",
        "step": 3,
        "data": {"hr@10": 0.95},
    }


def test_lines_are_appended_and_readable_at_once(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "run.json"
    for number in range(2):
        logger = tensorboard.Logger(str(path), clock=lambda: 5.0)
        logger.log("LOG", number, {})
        assert len(path.read_text(encoding="utf-8").splitlines()) == number + 1
        logger.close()


def test_no_path_logs_nowhere() -> None:
    logger = tensorboard.Logger("", clock=lambda: 0.0)
    logger.log("LOG", [], {})
    logger.close()


def test_a_log_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--log_path"):
        tensorboard.Logger(str(tmp_path), clock=lambda: 0.0)
