"""Try the gate on this machine: on unchanged runs, and on runs that are slowed down by a fifth.

Makes a baseline of the suite `short`, then gates against it: unchanged ones, which must never say
REGRESSED, and ones whose trainer is stopped for a fifth of the time (see
tests/support/slow_launcher.py), which must say it in nine of ten. Needs a quiet machine; with
--sequential about 30 minutes on 2 cores.

    python tools/measure_gate.py --sequential

What was done is kept in --results, and the outcomes in gates.jsonl there: --only unchanged|slowed
makes a part, --keep goes on with the baseline of an earlier call.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import shlex
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.__main__ import main as bench  # noqa: E402 - bench need not be installed

SLOWER = 0.2
WANTED = {"unchanged": 0.0, "slowed": 0.9}


def main() -> int:
    """Exit code 0 if both bars hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="short")
    parser.add_argument("--gates", type=int, default=10, help="of each kind")
    parser.add_argument("--only", choices=tuple(WANTED))
    parser.add_argument("--keep", action="store_true", help="use the baseline that is there")
    parser.add_argument("--sequential", action="store_true")
    parser.add_argument("--results", type=Path, default=Path("gate-trial"))
    parser.add_argument("--data_root", type=Path, default=Path("data"))
    parser.add_argument("--trainer", default=f"{sys.executable} -m ncf")
    given = parser.parse_args()
    trainer = tuple(shlex.split(given.trainer))
    name = Path(given.suite).stem
    where = ["--results", str(given.results)]
    if not given.keep:
        make_baseline(given, trainer, where, name)
    slow = (
        sys.executable,
        str(ROOT / "tests" / "support" / "slow_launcher.py"),
        str(SLOWER),
        *trainer,
    )
    good = True
    for kind, with_ in (("unchanged", trainer), ("slowed", slow)):
        if given.only in (None, kind):
            verdicts = [one_gate(given, kind, with_, where, n) for n in range(given.gates)]
            share = verdicts.count("REGRESSED") / len(verdicts)
            held = share >= WANTED[kind] if WANTED[kind] else share == 0
            good = good and held
            print(f"{kind}: REGRESSED in {verdicts.count('REGRESSED')} of {len(verdicts)} gates: "
                  f"{'holds' if held else 'MISSED'}", flush=True)  # fmt: skip
    return 0 if good else 1


def make_baseline(
    given: argparse.Namespace, trainer: tuple[str, ...], where: list[str], name: str
) -> None:
    """All seeds of the suite, saved and promoted."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    root = ["--data_root", str(given.data_root)]
    commands = (
        ["run", given.suite, "--no_report", "--rerun", "all", *root, *where],
        ["baseline", "save", name, "--name", stamp, "--why", "trial of the gate", *where],
        ["baseline", "promote", name, "--name", stamp, "--why", "trial of the gate", *where],
    )
    for words in commands:
        if bench(words, trainer=trainer) != 0:
            raise SystemExit(f"bench {' '.join(words)} failed")


def one_gate(
    given: argparse.Namespace, kind: str, trainer: tuple[str, ...], where: list[str], number: int
) -> str:
    """The verdict on throughput of one gate; a line about it is printed and kept."""
    words = ["gate", given.suite, "--json", "--metrics", "throughput", *where]
    words += ["--data_root", str(given.data_root), *(["--sequential"] * given.sequential)]
    start, output = time.monotonic(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()) as errors:
        code = bench(words, trainer=trainer)
    if not output.getvalue():
        raise SystemExit(f"bench {' '.join(words)}: exit code {code}: {errors.getvalue()}")
    found = json.loads(output.getvalue())
    line = found["lines"][0]
    facts = {
        "kind": kind,
        "gate": number + 1,
        "exit_code": code,
        "looks": found["looks"],
        "seconds": round(time.monotonic() - start, 1),
        "warnings": found["warnings"],
        **{key: line[key] for key in ("verdict", "change", "low", "high", "p", "n_here")},
    }
    with (given.results / "gates.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")
    print(json.dumps(facts), flush=True)
    return str(line["verdict"])


if __name__ == "__main__":
    sys.exit(main())
