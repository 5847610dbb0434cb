"""The status of an attempt: ok, or a typed failure with the rank that failed first. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bench.process.supervise import STOPPED, signal_name
from bench.records.attempt import Failure
from bench.records.validate import discrepancies

if TYPE_CHECKING:
    from bench.process.supervise import Ended
    from bench.records.identity import DataIdentity
    from bench.suite.model import Cell
    from ncf.record import RunRecord

INTERRUPTED = 130
_STOP_CODES = (None, 0, INTERRUPTED, 128 + 15)
_REPORTED = {3: "nan", 4: "invalid", INTERRUPTED: "interrupted"}
"""Statuses that `ncf train` reports by its exit code; 0 and 2 (bad input) are not among them."""

_OUT_OF_MEMORY = re.compile(
    r"ResourceExhaustedError|RESOURCE_EXHAUSTED|OOM when allocating|CUDA_ERROR_OUT_OF_MEMORY"
    r"|CUDA out of memory|[Oo]ut of memory|\bMemoryError\b|std::bad_alloc|Cannot allocate memory"
    r"|Unable to allocate [\d.]+ [KMGT]iB"
)
_NO_FAILURE = re.compile(r"not a failure|ran out of memory trying to allocate")  # TF's hints
_RANK_LINE = re.compile(r"\[(?:\d+,)?(\d+)\]<(?:stdout|stderr)>: ?(.*)")
_RANK_EXITS = (  # rank, exit code, signal
    re.compile(r"Process (?P<rank>\d+) exit with status code (?P<code>\d+)"),  # horovodrun
    re.compile(r"Process name: \[?(?P<rank>\d+)\b"),  # horovodrun's last words
    # Open MPI 4 and 5: [[57205,1],0] and [prterun-host-8102@1,0]
    re.compile(r"Process name: \[\S*,(?P<rank>\d+)\]\s+Exit code:\s+(?P<code>\d+)"),
    re.compile(
        r"process rank (?P<rank>\d+) with PID \d+ on node \S+\s+exited\s+on\s+"
        r"signal\s+(?P<signal>\d+)"
    ),
)
# A rank that ends because of another one says so (ncf.ranks.watchdog): blame the other one.
_LOST_LINE = re.compile(
    r"(?:\[(?:\d+,)?(\d+)\]<\w+>: ?)?ncf: lost: ((?:ranks? (\d+).* sign of life)?.*)"
)
_EXCEPTION = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b.*|(?:ncf: )?error: .*"
    r"|Fatal Python error: .*|.*Check failed: .*|terminate called .*"
)
_WHAT = re.compile(r"what\(\): .*")  # C++ gives the reason; Python only reports that it aborts


def classify(
    cell: Cell,
    seed: int,
    data: DataIdentity,
    ended: Ended,
    run: RunRecord | None,
    no_run: str,
    output: str,
) -> tuple[str, Failure | None]:
    """Status and failure of an attempt.

    Args:
        cell: the planned cell.
        seed: the planned seed.
        data: the data of the sweep.
        ended: how the process ended.
        run: the trainer's record, if it wrote a readable one.
        no_run: why there is no record.
        output: the end of the log.
    """
    rank, exit_code, signal = _first(cell, ended, output)
    silent = silent_rank(output) if cell.ranks > 1 else None
    last = last_words(rank_lines(output, rank))

    def failed(status: str, message: str) -> tuple[str, Failure]:
        if ended.survivors:
            message += f"; processes {list(ended.survivors)} did not die"
        if status in ("timeout", "interrupted"):  # the sweep ended it: rank and signal mean nothing
            return status, Failure(_line(message))
        first = None if status == "invalid" else rank
        return status, Failure(_line(message), first, signal, exit_code)

    if ended.cause == "interrupted":
        return failed("interrupted", "stopped by the user")
    if ended.cause == "timeout":
        return failed("timeout", f"no end after {ended.timeout_s:g} s; last: {last}")
    if silent:  # frozen, or cut off: the signal that ended it says nothing
        return "crash", Failure(_line(silent[1]), silent[0])
    if rank and exit_code not in _STOP_CODES and run and run.status in ("interrupted", "error"):
        run = None  # the first rank only reports that it outlived the one that failed
    reason = (run.reason if run else None) or last
    reported = _REPORTED.get(exit_code or 0) or (run.status if run else None)
    if reported in _REPORTED.values():
        return failed(str(reported), reason)
    if exit_code != 0 or signal:
        memory = out_of_memory(output, killed=signal == "SIGKILL", oom_kills=ended.host_oom_kills)
        return failed("oom", memory) if memory else failed("crash", _crash(signal, reason))
    if run is None:
        return failed("invalid", f"exit code 0 without a usable record: {no_run}")
    if run.status != "ok":
        return failed("crash", reason)
    wrong = discrepancies(cell, seed, data, run)
    return failed("invalid", "; ".join(wrong)) if wrong else ("ok", None)


def _first(cell: Cell, ended: Ended, output: str) -> tuple[int | None, int | None, str | None]:
    """The rank that failed first, its exit code, and the signal that ended it."""
    rank, exit_code = first_failure(output) if cell.ranks > 1 else (0, None)
    exit_code = ended.exit_code if exit_code is None else exit_code
    signal = ended.signal
    if exit_code is not None and 128 < exit_code < 160 and exit_code != INTERRUPTED:
        signal = signal or signal_name(exit_code - 128)
    return rank, exit_code, signal


def _crash(signal: str | None, reason: str) -> str:
    if signal is None or _EXCEPTION.match(reason):
        return reason
    why = " from outside, not for lack of memory" if signal == "SIGKILL" else ""
    return f"ended by {signal}{why}; last: {reason}"


def out_of_memory(output: str, *, killed: bool, oom_kills: int | None) -> str | None:
    """The line that shows lack of memory, or None.

    For a process that received SIGKILL the kernel's counter shows whether memory was the reason;
    without a counter that is by far the most likely reason.
    """
    for line in reversed(output.splitlines()):
        if _OUT_OF_MEMORY.search(line) and not _NO_FAILURE.search(line):
            return unprefixed(line).strip()
    if killed and oom_kills is None:
        return "killed by SIGKILL, most likely by the kernel OOM killer (host memory)"
    if killed and oom_kills:
        return "killed by the kernel OOM killer (host memory)"
    return None


def first_failure(output: str) -> tuple[int | None, int | None]:
    """The rank that failed first and its exit code, as horovodrun or Open MPI reports it.

    Ranks that report that they lost another one come last.
    """
    lost = {int(match[1]) for match in _LOST_LINE.finditer(output) if match[1] is not None}
    ends = [match for pattern in _RANK_EXITS for match in pattern.finditer(output)]
    ends.sort(key=lambda match: (int(match["rank"]) in lost, match.start()))
    return (int(ends[0]["rank"]), _exit_code(ends[0])) if ends else (None, None)


def _exit_code(match: re.Match[str]) -> int | None:
    """As in a shell: 128 + signal."""
    groups = match.groupdict()
    if groups.get("signal"):
        return 128 + int(groups["signal"])
    return int(groups["code"]) if groups.get("code") else None


def silent_rank(output: str) -> tuple[int, str] | None:
    """The rank that gives no sign of life according to the others, and their message."""
    for match in _LOST_LINE.finditer(output):
        if match[3] is not None:
            return int(match[3]), match[2]
    return None


def rank_lines(output: str, rank: int | None) -> list[str]:
    """The output of one rank, without horovodrun's prefixes; of all ranks if rank is None.

    Output without prefixes (a single process) belongs to any rank. Output after a run was stopped
    is left out: it is about the stop, not about the run.
    """
    before_stop = output.partition(f"\n{STOPPED}")[0]
    matches = [(line, _RANK_LINE.match(line)) for line in before_stop.splitlines()]
    if rank is None or not any(match for _, match in matches):
        return [unprefixed(line) for line, _ in matches]
    return [match[2] for _, match in matches if match and int(match[1]) == rank]


def unprefixed(line: str) -> str:
    """A line without the launcher's `[0]<stderr>:` or `[1,0]<stderr>: `."""
    match = _RANK_LINE.match(line)
    return match[2] if match else line


def last_words(lines: list[str]) -> str:
    """The most informative line: the last exception or error, else the last line."""
    texts = [line.strip() for line in lines if line.strip() and not line.startswith("$ ")]
    for pattern in (_WHAT, _EXCEPTION):
        for text in reversed(texts):
            if pattern.match(text):
                return text
    return texts[-1] if texts else "no output"


def _line(message: str) -> str:
    """One line of at most 400 characters."""
    line = " ".join(message.split())
    return line if len(line) <= 400 else line[:397] + "..."
