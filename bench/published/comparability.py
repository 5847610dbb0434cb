"""Whether our runs can be set beside a published system, and if not, why. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench.analysis.grid import has_work
from bench.analysis.metrics import PAIRS
from bench.published.figures import Figure, matches
from bench.records.identity import gpus_text, listed
from bench.render import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.analysis.grid import Block

PUBLISHED_USERS, PUBLISHED_ITEMS = 138493, 26744  # MovieLens 20M


PUBLISHED_BATCH = 1048576


PUBLISHED_MODEL = {"factors": 64, "layers": [256, 256, 128, 64], "negative_samples": 4}


def differences(block: Block, system: str) -> list[str]:
    """What keeps a block's runs from standing beside a published system; empty if nothing does.

    Compared are the GPUs (model, memory, number), the data, what HR@k means, the global batch and
    the model's size.
    """
    if block.condition is None:
        return ["no good run"]
    machine, data = block.condition.machine, block.condition.dataset
    found = []
    if not matches(system, [{"name": name, "memory_bytes": size} for name, size in machine.gpus]):
        found.append(f"another machine ({gpus_text(machine)})")
    sizes_agree = (data.users, data.items) == (PUBLISHED_USERS, PUBLISHED_ITEMS)
    if not sizes_agree or data.name.startswith("synthetic"):
        found.append(f"other data ({data.name}, theirs is MovieLens 20M)")
    if (data.protocol, data.candidates_per_user, block.condition.topk) != ("nvidia", 100, 10):
        found.append(
            f"another metric (HR@{block.condition.topk}, protocol {data.protocol}, "
            f"{data.candidates_per_user} candidates)"
        )
    batches = sorted({run.global_batch for run in block.runs})
    if batches != [PUBLISHED_BATCH]:
        sizes = ", ".join(map(units.count, batches))
        found.append(f"another global batch ({sizes}, theirs is {units.count(PUBLISHED_BATCH)})")
    models = [
        {name: listed(run.config.get(name)) for name in PUBLISHED_MODEL} for run in block.runs
    ]
    if any(model != PUBLISHED_MODEL for model in models):
        found.append("another model size or number of negatives")
    return found


INFERENCE_SECTIONS = ("inference-throughput", "inference-latency")


def of_inference(figures: Sequence[Figure]) -> tuple[Figure, ...]:
    """The published figures of inference."""
    return tuple(figure for figure in figures if figure.section in INFERENCE_SECTIONS)


def inference_differences(block: Block, system: str, figures: Sequence[Figure]) -> list[str]:
    """What keeps a block's inference from standing beside a published system; empty if nothing.

    Compared are the GPU that one rank used (model, memory), the sizes of tables and layers, and
    whether the source states its batch sizes. The data themselves do not matter: pairs are random.
    """
    if block.condition is None or not has_work(block, PAIRS):
        return ["no good run"]
    machine, data = block.condition.machine, block.condition.dataset
    found = []
    one = [{"name": name, "memory_bytes": size} for name, size in machine.gpus[:1]]
    if not matches(re.sub(r"\d+x ", "1x ", system), one):
        found.append(f"another device ({gpus_text(machine)})")
    if (data.users, data.items) != (PUBLISHED_USERS, PUBLISHED_ITEMS):
        found.append(
            f"other tables ({units.count(data.users)} users, {units.count(data.items)} items)"
        )
    sizes = ("factors", "layers")
    ours = [{name: listed(run.config.get(name)) for name in sizes} for run in block.runs]
    if any(model != {name: PUBLISHED_MODEL[name] for name in sizes} for model in ours):
        found.append("another model size")
    if not any(figure.batch_per_gpu for figure in figures):
        found.append("the source does not state its batch size")
    return found
