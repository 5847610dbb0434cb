from __future__ import annotations

import dataclasses

import pytest
from sample_records import ML_100K, make_run, make_suite

from bench.process.supervise import Ended
from bench.records.identity import DataIdentity
from bench.records.validate import discrepancies
from bench.suite.model import cells, make_cell
from bench.sweep.classify_failure import (
    classify,
    first_failure,
    last_words,
    out_of_memory,
    rank_lines,
)
from ncf.record import Epoch, Precision

SUITE = make_suite(train={"epochs": 8}, axes={"ranks": (1, 2), "precision": ("fp32", "amp")})
ONE, TWO = cells(SUITE)[0], cells(SUITE)[3]
DATA = DataIdentity(ML_100K.hash, ML_100K.candidates_hash)
HOROVOD = """\
$ horovodrun -np 2 --gloo python -m ncf train
[0]<stdout>:epoch 1/8  loss 0.2
[1]<stderr>:Traceback (most recent call last):
[1]<stderr>:  File "x.py", line 3, in <module>
[1]<stderr>:ValueError: rank 1 fell over
[0]<stderr>:horovod.common.exceptions.HorovodInternalError: connection closed
Process 1 exit with status code 1.
Terminating remaining workers after failure of Process 1.
Process 0 exit with status code 143.
Traceback (most recent call last):
RuntimeError: Horovod detected that one or more processes exited with non-zero status, thus \
causing the job to be terminated. The first process to do so was:
Process name: 1
Exit code: 1
"""


def run_of(cell, **changes):
    run = make_run(ranks=cell.ranks, precision=cell.precision)
    run = dataclasses.replace(run, config={"epochs": 8, "precision": cell.precision})
    return dataclasses.replace(run, **changes)


def ended(cause="finished", code=0, signal=None, oom_kills=0, **more):
    return Ended(cause, 12.0, 300.0, code, signal, oom_kills, **more)


def verdict(cell=ONE, end=None, run=None, output="", no_run="no file"):
    return classify(cell, 1, DATA, end or ended(), run, no_run, output)


def test_a_run_that_did_what_was_asked_is_ok():
    assert verdict(run=run_of(ONE)) == ("ok", None)
    assert verdict(TWO, run=run_of(TWO)) == ("ok", None)


def test_fp32_requested_and_tf32_effective_is_invalid():
    run = run_of(ONE, precision=Precision("fp32", "tf32", "float32"))
    status, failure = verdict(run=run)
    assert status == "invalid"
    assert failure.message == "fp32 requested, tf32 effective"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"world_size": 1}, "asked for 2 ranks, 1 trained"),
        ({"seed": 3}, "asked for seed 1, used 3"),
        (
            {"precision": Precision("fp32", "fp32", "float32")},
            "asked for amp, the record says fp32",
        ),
        ({"config": {"epochs": 9, "precision": "amp"}}, "asked for epochs 8, used 9"),
        ({"config": {"precision": "amp"}}, "the record does not say which epochs was used"),
        ({"epochs": ()}, "no epoch has timed samples"),
        ({"epochs": (), "inference": ()}, "no call was timed"),
        ({"epochs": (Epoch(1, 3, 300, 1.0, 0, 0.0, 0.5),)}, "no epoch has timed samples"),
        ({"dataset": dataclasses.replace(ML_100K, hash="x")}, "trained on data x instead of"),
        ({"dataset": dataclasses.replace(ML_100K, candidates_hash="x")}, "candidates x instead"),
    ],
)
def test_a_record_that_contradicts_the_request_is_invalid(changes, message):
    status, failure = verdict(TWO, run=run_of(TWO, **changes))
    assert status == "invalid"
    assert message in failure.message


def test_values_are_compared_by_meaning_not_by_type():
    cell = make_cell(
        {},
        {"layers": (64, 32), "lr": 1.0, "amp_dtype": "auto", "checkpoint_dir": "a/b"},
        SUITE.data,
    )
    config = {"layers": [64, 32], "lr": 1, "amp_dtype": "bfloat16", "checkpoint_dir": "b"}
    assert discrepancies(cell, 1, DATA, run_of(ONE, config=config)) == []
    wrong = {**config, "layers": [64], "lr": 2}
    assert len(discrepancies(cell, 1, DATA, run_of(ONE, config=wrong))) == 2
    assert len(discrepancies(cell, 1, DATA, run_of(ONE, config={**config, "layers": 64}))) == 1


def test_a_crash_names_the_rank_that_failed_first_and_its_exception():
    status, failure = verdict(TWO, ended(code=1), output=HOROVOD)
    assert status == "crash"
    assert (failure.rank, failure.exit_code, failure.signal) == (1, 1, None)
    assert failure.message == "ValueError: rank 1 fell over"


def test_the_tail_of_a_rank_holds_no_other_rank():
    assert rank_lines(HOROVOD, 1)[-1] == "ValueError: rank 1 fell over"
    assert rank_lines(HOROVOD, 0)[0] == "epoch 1/8  loss 0.2"
    assert rank_lines("one\ntwo", 0) == ["one", "two"]
    assert rank_lines("[1,0]<stdout>: of Open MPI\n[1,1]<stderr>: x", 0) == ["of Open MPI"]
    assert "ValueError: rank 1 fell over" in rank_lines(HOROVOD, None)


def test_what_a_run_says_while_it_is_being_ended_is_not_what_it_died_of():
    output = "$ python\nepoch 1/8\n$ stopped: timeout\nKeyboardInterrupt\n"
    status, failure = verdict(end=ended("timeout", 130), output=output)
    assert (status, failure.message) == ("timeout", "no end after 300 s; last: epoch 1/8")
    assert rank_lines(output, 0)[-1] == "epoch 1/8"


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (HOROVOD, (1, 1)),
        ("Process 3 exit with status code 139.\nProcess 0 exit with status code 143.", (3, 139)),
        ("Process name: 2\nExit code: 1", (2, None)),
        ("Process name: [2]\nExit code: 1", (2, None)),
        ("  Process name: [[57205,1],3]\n  Exit code:    1\n", (3, 1)),
        ("   Process name: [prterun-vm-31111@1,1]\n   Exit code:    7\n", (1, 7)),
        (
            "prterun noticed that process rank 1 with PID 9 on node vm exited on\nsignal 9 (Ki",
            (1, 137),
        ),
        (
            "mpirun noticed that process rank 0 with PID 0 on node a exited on signal 11",
            (0, 139),
        ),
        ("all is well", (None, None)),
    ],
)
def test_the_launcher_tells_who_failed_first(output, expected):
    assert first_failure(output) == expected


LOST = """\
[0]<stderr>:ncf: lost: another rank has gone (Horovod has been shut down)
[1]<stderr>:RuntimeError: planted
Process 0 exit with status code 71.
Terminating remaining workers after failure of Process 0.
Process 1 exit with status code 1.
"""
SILENT = """\
[0]<stderr>:ncf: lost: rank 1 gives no sign of life; it was in run (evaluate.py:7)
[2]<stderr>:ncf: lost: rank 1 gives no sign of life; it was in run (evaluate.py:7)
Process 0 exit with status code 71.
Process 2 exit with status code 71.
Process 1 exit with status code 137.
"""


def test_a_rank_that_lost_another_is_not_to_blame_even_if_it_ends_first():
    status, failure = verdict(TWO, ended(code=1), output=LOST)
    assert (status, failure.rank, failure.exit_code) == ("crash", 1, 1)
    assert failure.message == "RuntimeError: planted"


@pytest.mark.parametrize("oom_kills", [0, 1, None])
def test_frozen_rank_is_named_by_others_not_by_its_killed_end(oom_kills):
    status, failure = verdict(TWO, ended(code=1, oom_kills=oom_kills), output=SILENT)
    assert (status, failure.rank, failure.signal) == ("crash", 1, None)
    assert failure.message == "rank 1 gives no sign of life; it was in run (evaluate.py:7)"


@pytest.mark.parametrize(("code", "status"), [(137, "crash"), (1, "crash"), (130, "interrupted")])
def test_rank_ended_because_of_another_is_not_the_cause(code, status):
    run = run_of(TWO, status="interrupted", reason="stopped by a signal; another rank has gone")
    output = f"Process 1 exit with status code {code}.\nProcess 0 exit with status code 130.\n"
    found, failure = verdict(TWO, ended(code=1), run=run, output=output)
    assert found == status
    assert failure.rank == (1 if status == "crash" else None)


def test_a_rank_that_stalled_says_so_itself():
    output = (
        '[1]<stderr>:  File "evaluate.py", line 7, in run\n'
        "[1]<stderr>:ncf: error: rank 1 stalled: nothing done for 30 s in run (evaluate.py:7)\n"
        "[0]<stderr>:ncf: lost: rank 1 stalled: nothing done for 30 s in run (evaluate.py:7)\n"
        "Process 0 exit with status code 71.\nProcess 1 exit with status code 70.\n"
    )
    status, failure = verdict(TWO, ended(code=1), output=output)
    assert (status, failure.rank, failure.exit_code) == ("crash", 1, 70)
    assert failure.message.startswith("ncf: error: rank 1 stalled: nothing done for 30 s")


def test_a_signal_is_named_from_the_process_or_from_the_shells_exit_code():
    status, failure = verdict(end=ended(code=None, signal="SIGSEGV"), output="learning")
    assert (status, failure.signal, failure.rank) == ("crash", "SIGSEGV", 0)
    assert failure.message == "ended by SIGSEGV; last: learning"
    output = "[1]<stderr>:learning\nProcess 1 exit with status code 139."
    _, failure = verdict(TWO, ended(code=1), output=output)
    assert (failure.signal, failure.rank, failure.exit_code) == ("SIGSEGV", 1, 139)


@pytest.mark.parametrize(
    "line",
    [
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node}} OOM",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
        "E external/local_xla/cuda_driver.cc: failed: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
        "MemoryError",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "OSError: [Errno 12] Cannot allocate memory",
    ],
)
def test_want_of_memory_is_recognised(line):
    status, failure = verdict(end=ended(code=1), output=f"before\n{line}\nafter")
    assert status == "oom"
    assert failure.message == line


def test_a_hint_about_memory_is_no_failure():
    hint = (
        "W tensorflow/bfc_allocator.cc] Allocator (GPU_0_bfc) ran out of memory trying to allocate "
        "2.00GiB. The caller indicates that this is not a failure"
    )
    status, _ = verdict(end=ended(code=1), output=f"{hint}\nValueError: bad")
    assert status == "crash"
    assert verdict(run=run_of(ONE), output=hint) == ("ok", None)


@pytest.mark.parametrize(
    ("oom_kills", "status", "message"),
    [
        (1, "oom", "killed by the kernel OOM killer (host memory)"),
        (None, "oom", "most likely by the kernel OOM killer"),
        (0, "crash", "ended by SIGKILL from outside, not for lack of memory"),
    ],
)
def test_a_kill_is_for_memory_if_the_kernel_says_so_or_says_nothing(oom_kills, status, message):
    end = ended(code=None, signal="SIGKILL", oom_kills=oom_kills)
    found, failure = verdict(end=end)
    assert found == status
    assert message in failure.message
    output = "[1]<stdout>:learning\nProcess 1 exit with status code 137."
    assert verdict(TWO, ended(code=1, oom_kills=oom_kills), output=output)[0] == status


@pytest.mark.parametrize(("code", "status"), [(3, "nan"), (4, "invalid"), (130, "interrupted")])
def test_the_trainers_own_exit_codes_are_types(code, status):
    run = run_of(ONE, status=status, reason="because")
    assert verdict(end=ended(code=code), run=run)[0] == status
    assert verdict(end=ended(code=code), run=run)[1].message == "because"
    assert verdict(end=ended(code=code), output="the last line")[1].message == "the last line"
    output = f"[0]<stderr>:why\nProcess 0 exit with status code {code}."
    assert verdict(TWO, ended(code=1), output=output)[0] == status


def test_bad_input_to_the_trainer_is_a_crash_that_shows_its_line():
    output = "ncf: error: --epochs 0: must be at least 1"
    status, failure = verdict(end=ended(code=2), output=output)
    assert (status, failure.exit_code, failure.message) == ("crash", 2, output)


def test_exit_code_0_without_a_record_is_invalid():
    status, failure = verdict(no_run="run.json: No such file")
    assert status == "invalid"
    assert failure.message == "exit code 0 without a usable record: run.json: No such file"


def test_a_whole_record_does_not_excuse_a_crash():
    assert verdict(end=ended(code=1), run=run_of(ONE))[0] == "crash"
    assert verdict(end=ended(code=None, signal="SIGSEGV"), run=run_of(ONE))[0] == "crash"


def test_a_record_that_says_error_is_no_success_whatever_the_exit_code():
    status, failure = verdict(run=run_of(ONE, status="error", reason="lost a rank"))
    assert (status, failure.message) == ("crash", "lost a rank")


def test_a_timeout_says_how_long_and_what_was_last():
    status, failure = verdict(end=ended("timeout", None, "SIGTERM"), output="epoch 1/8")
    assert status == "timeout"
    assert failure.message == "no end after 300 s; last: epoch 1/8"
    assert (failure.signal, failure.exit_code) == (None, None), "the signal was ours"


def test_what_the_user_stopped_is_interrupted_even_with_a_whole_record():
    status, failure = verdict(end=ended("interrupted", 0), run=run_of(ONE))
    assert (status, failure.message) == ("interrupted", "stopped by the user")


def test_processes_that_do_not_die_are_mentioned():
    end = ended("timeout", None, survivors=(17,))
    assert verdict(end=end)[1].message.endswith("processes [17] did not die")


def test_the_last_exception_says_more_than_the_last_line():
    lines = ["$ python -m ncf train", "ValueError: bad", "2026-11-30 I cleaning up", ""]
    assert last_words(lines) == "ValueError: bad"
    aborted = [
        "terminate called",
        "  what():  [enforce fail] no address",
        "Fatal Python error: Aborted",
    ]
    assert last_words(aborted) == "what():  [enforce fail] no address"
    assert last_words(["a", " b "]) == "b"
    assert last_words(["$ python"]) == "no output"


def test_a_message_is_one_line_of_bearable_length():
    _, failure = verdict(end=ended(code=1), output="ValueError: " + "x" * 10_000)
    assert len(failure.message) == 400


def test_no_memory_line_and_no_kill_is_no_want_of_memory():
    assert out_of_memory("ValueError", killed=False, oom_kills=3) is None
