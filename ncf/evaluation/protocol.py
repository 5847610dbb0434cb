"""What HR@k means in a run: its candidates, their identity for the record, and the evaluator."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf import metrics, record
from ncf.data import candidates, dataset
from ncf.errors import UserError
from ncf.evaluation.evaluators import (
    FULL,
    FullEvaluator,
    SampledEvaluator,
    competitors,
    popularity_places,
)
from ncf.sampling.user_shards import Alone

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ncf.data.dataset import Data
    from ncf.evaluation.evaluators import Evaluator
    from ncf.model.neumf import Parameters
    from ncf.ranks.horovod import Ranks
    from ncf.sampling.user_shards import Shard


@dataclass(frozen=True)
class EvaluationOptions:
    """The options that decide how candidates are chosen and scored; None is as prepared."""

    protocol: str | None
    valid_negative: int | None
    topk: int
    users_per_batch: int = 2048
    formulation: str = "fast"

    @property
    def words(self) -> str:
        """As on the command line, for messages."""
        given = {"protocol": self.protocol, "valid_negative": self.valid_negative}
        return " ".join(f"--{name} {value}" for name, value in given.items() if value)


@dataclass(frozen=True)
class Evaluation:
    """An evaluator, what its rates mean, and how many scores one evaluation takes."""

    dataset: record.Dataset
    evaluator: Evaluator
    scores: int


def build(
    options: EvaluationOptions,
    data: Data,
    parameters: Parameters,
    compute_dtype: Any,
    ranks: Ranks,
    *,
    streams: int = 1,
    shard: Shard | None = None,
) -> Evaluation:
    """Everything an evaluation needs.

    With a shard the parameters hold its users' rows, and this rank evaluates all of these users.

    Raises:
        UserError: these data cannot give such candidates.
    """
    own = shard.data if shard else data
    adder: Ranks | Alone = Alone(ranks) if shard else ranks
    if options.protocol == FULL:
        full = FullEvaluator(
            parameters,
            compute_dtype,
            own,
            adder,
            formulation=options.formulation,
            streams=streams,
        )
        identity = hashlib.sha256(f"{FULL} {data.hash}".encode()).hexdigest()
        popular = metrics.Totals.of(popularity_places(data), options.topk)
        candidate_facts = (FULL, data.n_items - 1, identity, competitors(data))
        described = _describe(data, options.topk, *candidate_facts, popular)
        return Evaluation(described, full, data.n_test * data.n_items)
    protocol, per_user, drawn = _candidates(options, data)
    held_out = np.asarray(data.test_items)
    counted = candidates.duplicate_mask(drawn, held_out)
    popularity = metrics.popularity(np.asarray(data.train_items), data.n_items)
    popular = metrics.item_score_totals(popularity, held_out, drawn, counted, options.topk)
    rows = shard.test_rows if shard else slice(None)
    evaluator = SampledEvaluator(
        parameters,
        compute_dtype,
        np.asarray(own.test_users),
        np.concatenate([held_out[:, None], drawn], axis=1)[rows],
        counted[rows],
        options.users_per_batch,
        adder,
        fast=options.formulation == "fast",
        streams=streams,
    )
    candidate_facts = (protocol, per_user, dataset.digest(drawn), counted.sum(axis=1))
    described = _describe(data, options.topk, *candidate_facts, popular)
    return Evaluation(described, evaluator, drawn.size + len(drawn))


def _describe(
    data: Data,
    topk: int,
    protocol: str,
    per_user: int,
    candidates_hash: str,
    effective: NDArray[np.integer[Any]],
    popularity: metrics.Totals,
) -> record.Dataset:
    return record.Dataset(
        name=data.name,
        hash=data.hash,
        users=data.n_users,
        items=data.n_items,
        train_interactions=data.n_train,
        test_users=data.n_test,
        protocol=protocol,
        candidates_per_user=per_user,
        candidates_hash=candidates_hash,
        effective_candidates_mean=float(effective.mean()),
        chance_hr_at_k=metrics.chance_hr(effective, topk),
        popularity_hr_at_k=popularity.hr,
    )


def _candidates(options: EvaluationOptions, data: Data) -> tuple[str, int, NDArray[np.int32]]:
    """Protocol, candidates per user, and the candidates: as stored with the data, or drawn."""
    stored = data.manifest["candidates"]
    protocol = options.protocol or stored["protocol"]
    per_user = options.valid_negative or stored["per_user"]
    if (protocol, per_user) == (stored["protocol"], stored["per_user"]):
        return protocol, per_user, np.asarray(data.candidates)
    if candidates.is_given(stored["protocol"]):
        raise UserError(
            f"{options.words}: the candidates of {data.folder} came with the data "
            f"({stored['protocol']}) and are used as they are; `ncf prepare --protocol` makes "
            "a folder with others"
        )
    try:
        history = candidates.History(
            np.asarray(data.train_offsets),
            np.asarray(data.train_items),
            np.asarray(data.test_users),
            np.asarray(data.test_items),
            data.n_items,
        )
        pad = bool(stored.get("padded"))
        drawn = candidates.draw(
            history, candidates.Drawing(protocol, per_user, stored["seed"], pad=pad)
        )
    except candidates.ShortOfItemsError as error:
        raise UserError(f"{options.words}: {error}") from None
    return protocol, per_user, drawn
