"""What HR@k means in a run: its candidates, their identity for the record, and the evaluator."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ncf import metrics, record
from ncf.data import candidates, dataset
from ncf.errors import UserError
from ncf.evaluation import full as full_ranking
from ncf.sampling.user_shards import Alone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from ncf.data.dataset import Data
    from ncf.evaluation.full import FullEvaluator
    from ncf.evaluation.sampled import Evaluator
    from ncf.model.neumf import Parameters
    from ncf.ranks.horovod import Ranks
    from ncf.sampling.user_shards import Shard


@dataclass(frozen=True)
class Asked:
    """The options that decide how candidates are chosen; None is as prepared."""

    protocol: str | None
    valid_negative: int | None
    topk: int
    users_per_batch: int
    formulation: str

    @property
    def words(self) -> str:
        """As on the command line, for messages."""
        given = {"protocol": self.protocol, "valid_negative": self.valid_negative}
        return " ".join(f"--{name} {value}" for name, value in given.items() if value)


@dataclass(frozen=True)
class Evaluation:
    """An evaluator, what its rates mean, and how many scores one evaluation takes."""

    dataset: record.Dataset
    evaluator: Evaluator | FullEvaluator
    scores: int


def build(
    asked: Asked,
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
        UserError: the candidates that are asked for cannot be had from these data.
    """
    if asked.protocol == full_ranking.PROTOCOL:
        return _full(asked, data, parameters, compute_dtype, ranks, streams, shard)
    from ncf.evaluation.sampled import Evaluator

    stored = data.manifest["candidates"]
    protocol = asked.protocol or stored["protocol"]
    per_user = asked.valid_negative or stored["per_user"]
    if (protocol, per_user) == (stored["protocol"], stored["per_user"]):
        drawn = np.asarray(data.candidates)
    else:
        drawn = _draw(asked, data, protocol, per_user, stored)
    held_out = np.asarray(data.test_items)
    counted = candidates.duplicate_mask(drawn, held_out)
    popularity = metrics.popularity(np.asarray(data.train_items), data.n_items)
    baseline = metrics.item_score_totals(popularity, held_out, drawn, counted, asked.topk)
    about = _about(
        data, asked.topk, protocol, per_user, dataset.digest(drawn), counted.sum(axis=1), baseline
    )
    listed = np.concatenate([held_out[:, None], drawn], axis=1)
    users = np.asarray(data.test_users)
    reducer: Ranks | Alone = ranks
    if shard:
        listed, counted = listed[shard.test_rows], counted[shard.test_rows]
        users, reducer = shard.data.test_users, Alone(ranks)
    evaluator = Evaluator(
        parameters,
        compute_dtype,
        users,
        listed,
        counted,
        asked.users_per_batch,
        reducer,
        fast=asked.formulation == "fast",
        streams=streams,
    )
    return Evaluation(about, evaluator, drawn.size + len(drawn))


def _full(
    asked: Asked,
    data: Data,
    parameters: Parameters,
    compute_dtype: Any,
    ranks: Ranks,
    streams: int,
    shard: Shard | None,
) -> Evaluation:
    evaluator = full_ranking.FullEvaluator(
        parameters,
        compute_dtype,
        shard.data if shard else data,
        Alone(ranks) if shard else ranks,
        formulation=asked.formulation,
        streams=streams,
    )
    identity = hashlib.sha256(f"{full_ranking.PROTOCOL} {data.hash}".encode()).hexdigest()
    baseline = metrics.Totals.of(full_ranking.popularity_places(data), asked.topk)
    left = full_ranking.left(data)
    about = _about(
        data, asked.topk, full_ranking.PROTOCOL, data.n_items - 1, identity, left, baseline
    )
    return Evaluation(about, evaluator, data.n_test * data.n_items)


def _about(
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


def _draw(
    asked: Asked, data: Data, protocol: str, per_user: int, stored: Mapping[str, Any]
) -> NDArray[np.int32]:
    if candidates.is_given(stored["protocol"]):
        raise UserError(
            f"{asked.words}: the candidates of {data.folder} came with the data "
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
        return candidates.draw(
            history, candidates.Drawing(protocol, per_user, stored["seed"], pad=pad)
        )
    except candidates.ShortOfItemsError as error:
        raise UserError(f"{asked.words}: {error}") from None
