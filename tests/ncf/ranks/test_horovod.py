"""The place among the ranks, the choice of a device, and what happens without Horovod."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from ncf.errors import UserError
from ncf.ranks import horovod as distributed
from ncf.ranks.horovod import Place, Ranks, device_index, place_from_environment


def test_a_process_without_a_launcher_is_alone() -> None:
    assert place_from_environment({"PATH": "/bin"}) == Place(0, 1, 0, 1)


def test_horovodrun_and_mpirun_tell_the_place_by_their_variables() -> None:
    horovod = {"HOROVOD_RANK": "4", "HOROVOD_SIZE": "8"}
    horovod |= {"HOROVOD_LOCAL_RANK": "0", "HOROVOD_LOCAL_SIZE": "4"}
    assert place_from_environment(horovod) == Place(4, 8, 0, 4)
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    mpi |= {"OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    assert place_from_environment(mpi) == Place(1, 2, 1, 2)


def test_rank_four_on_the_second_host_uses_its_first_gpu() -> None:
    place = place_from_environment(
        {
            "HOROVOD_RANK": "4",
            "HOROVOD_SIZE": "8",
            "HOROVOD_LOCAL_RANK": "0",
            "HOROVOD_LOCAL_SIZE": "4",
        }
    )
    assert device_index(place.local_rank, place.local_size, devices=4) == 0


@pytest.mark.parametrize("local_rank", range(4))
def test_more_local_ranks_than_gpus_is_the_same_short_line_on_all_of_them(local_rank) -> None:
    with pytest.raises(UserError, match=r"^4 ranks, 1 GPU on this host: start at most 1 here"):
        device_index(local_rank, local_size=4, devices=1)


def test_a_gpu_is_pinned_before_anything_else_touches_the_devices(monkeypatch) -> None:
    calls: list[str] = []

    def note(name: str, result=None):
        def call(*args):
            calls.append(f"{name}{args}")
            return result

        return call

    config = SimpleNamespace(
        list_physical_devices=note("list", ["gpu0", "gpu1", "gpu2", "gpu3"]),
        set_visible_devices=note("visible"),
        experimental=SimpleNamespace(set_memory_growth=note("growth")),
        threading=SimpleNamespace(set_intra_op_parallelism_threads=note("threads")),
    )
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    assert distributed.prepare_devices(Place(5, 8, 1, 4), threads=3).on_gpu
    assert calls == [
        "list('GPU',)",
        "visible(['gpu1'], 'GPU')",
        "growth('gpu1', True)",
        "threads(3,)",
    ]


@pytest.mark.parametrize(
    ("threads", "streams", "in_turn", "expected"),
    [
        (1, 8, True, {"intra": 1, "inter": 1}),
        (1, 8, False, {"intra": 1}),
        (4, 8, True, {"intra": 1, "inter": 4}),
        (4, 1, True, {"intra": 4}),
    ],
)
def test_a_rank_with_one_thread_computes_in_turn_only_where_asked(
    monkeypatch, threads, streams, in_turn, expected
) -> None:
    found: dict[str, int] = {}
    threading = SimpleNamespace(
        set_intra_op_parallelism_threads=lambda n: found.update(intra=n),
        set_inter_op_parallelism_threads=lambda n: found.update(inter=n),
    )
    config = SimpleNamespace(list_physical_devices=lambda _: [], threading=threading)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    distributed.prepare_devices(Place(0, 2, 0, 2), threads, streams, in_turn=in_turn)
    assert found == expected


def test_two_ranks_without_horovod_is_one_line_with_a_way_out(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "horovod", None)
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    with pytest.raises(UserError, match=r"2 ranks need Horovod.*build_horovod\.py") as caught:
        Ranks(Place(0, 2, 0, 2))
    assert "\n" not in str(caught.value)


def test_one_rank_needs_no_horovod(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    ranks = Ranks(Place())
    assert ranks.is_first
    assert list(ranks.sum([1.0, 2.0])) == [1.0, 2.0]
    assert ranks.broadcast_object("seed") == "seed"
    assert ranks.gather_objects(7) == [7]


def test_a_horovod_that_found_another_world_is_an_error(monkeypatch) -> None:
    fake = SimpleNamespace(init=lambda: None, size=lambda: 1, rank=lambda: 0)
    monkeypatch.setitem(sys.modules, "horovod", SimpleNamespace(tensorflow=fake))
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", fake)
    with pytest.raises(UserError, match="announced 2 ranks and Horovod found 1"):
        Ranks(Place(0, 2, 0, 2))


def test_horovod_stall_check_is_used_only_without_the_watchdog() -> None:
    watched = distributed.horovod_settings(watched=True)
    assert watched["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] == "0"
    alone = distributed.horovod_settings(watched=False)
    warn, shutdown = (
        int(alone[f"HOROVOD_STALL_{name}_TIME_SECONDS"]) for name in ("CHECK", "SHUTDOWN")
    )
    assert 0 < warn < shutdown, "Horovod ignores a shutdown that comes before the warning"
    assert warn + shutdown <= 60, "it looks every `warn` seconds"


def test_horovods_thread_turns_slower_the_longer_a_step_takes() -> None:
    assert [distributed.pace_ms(n) for n in (1, 8192, 32768, 524288, 10**8)] == [1, 4, 9, 34, 50]


def test_the_pace_goes_to_horovod_only_where_it_was_chosen() -> None:
    paces = [
        distributed.horovod_settings(watched=True, pace_ms=pace).get("HOROVOD_CYCLE_TIME")
        for pace in (7, None)
    ]
    assert paces == ["7", None]
