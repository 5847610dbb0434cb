"""One rank of a job of several: it ends with the others, and the others with it.

A rank that raises prints why and exits at once, without the orderly shutdown in which Horovod waits
for the others. A rank that loses another says so and waits for the launcher to end it, so that the
launcher sees the end of the other one first.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING, NoReturn

from ncf.errors import UserError
from ncf.ranks import rendezvous
from ncf.ranks import watchdog as watch
from ncf.ranks.horovod import place_from_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from ncf.ranks.horovod import Place

ALONE = ("interrupted", "error")
"""Statuses with which a rank ends without asking the others, who may be gone."""

STOPPED = ("interrupted", "stopped by a signal")
"""Status and reason of a run that a signal ended."""


class Stop:
    """Turns the first SIGTERM or Ctrl-C into a KeyboardInterrupt, and ignores the others.

    A launcher sends several, and the second must not interrupt writing the record.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self) -> None:
        self.requested = False
        for number in self.SIGNALS:
            signal.signal(number, self)

    def __call__(self, _number: int, _frame: object) -> None:
        """Handle the signal."""
        self.requested = True
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt


_LOSS = re.compile(
    r"HorovodInternalError|Horovod has been shut down|gloo/|ncclRemoteError|MPI_ERR_"
    r"|Connection (?:closed|reset) by peer"
)


def run(train: Callable[[], int]) -> int:
    """Run the training of this rank; its exit code. With one rank this is just `train()`."""
    place = place_from_environment()
    if place.size == 1:
        return train()
    by_mpirun = rendezvous.needed(os.environ, place) and horovod_is_installed()
    if by_mpirun:
        os.environ.update(rendezvous.join(os.environ, place))
    watch.start(watch.from_environment(os.environ, place.rank, place.size))
    try:
        code = train()
    except UserError:
        raise
    except Exception as error:  # whatever it is, the job must end
        if reason := loss(error):
            await_the_end(reason)
            code = watch.LOST
        else:
            traceback.print_exc()
            _leave_at_once(1, place if by_mpirun else None)
    finally:
        if by_mpirun:
            rendezvous.leave(os.environ, place)
    watch.stop()
    return code


def _leave_at_once(code: int, place: Place | None) -> NoReturn:
    if place:
        rendezvous.leave(os.environ, place)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def horovod_is_installed() -> bool:
    """Without it the ranks have nothing to meet for; `ncf.ranks.horovod` says so."""
    return importlib.util.find_spec("horovod") is not None


def loss(error: BaseException) -> str | None:
    """In one line, if the error comes of another rank's end; None if it is our own."""
    text = f"{type(error).__name__}: {error}"
    if not _LOSS.search(text):
        return None
    lines = [line for line in text.splitlines() if _LOSS.search(line)]
    return lines[0].strip()[:300]


def after(error: Exception) -> tuple[str, str]:
    """Status and reason of a run that lost another rank; anything else is raised again.

    Whoever stops a job stops its ranks one after the other: a rank that loses another first, and
    then is stopped itself, was interrupted.
    """
    reason = loss(error)
    if reason is None:
        raise error
    gone = f"another rank has gone ({reason})"
    try:
        await_the_end(reason)
    except KeyboardInterrupt:
        return "interrupted", f"stopped by a signal; {gone}"
    return "error", gone


def await_the_end(reason: str) -> None:
    """Say that another rank has gone, and leave its end to be seen first.

    Raises:
        KeyboardInterrupt: the launcher ends this rank meanwhile, as it should.
    """
    print(f"{watch.LOST_MARK} another rank has gone ({reason})", file=sys.stderr, flush=True)
    time.sleep(watch.GRACE_SECONDS)
