"""Imitates `horovodrun -np N --gloo COMMAND`: each rank in a session of its own, output prefixed.

The lines about a failure are those of Horovod 0.28.1 (horovod/runner/gloo_run.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading


def main(words: list[str]) -> int:
    assert words[0] == "-np"
    assert words[2] == "--gloo"
    size, command = int(words[1]), words[3:]
    ranks = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "HOROVOD_RANK": str(rank), "HOROVOD_SIZE": str(size)},
        )
        for rank in range(size)
    ]
    failed = threading.Event()
    codes: dict[int, int] = {}

    def follow(rank: int, process: subprocess.Popen[str]) -> None:
        for line in process.stdout:
            print(f"[{rank}]<stdout>:{line}", end="", flush=True)
        code = process.wait()
        codes[rank] = code if code >= 0 else 128 - code
        if code != 0:
            print(f"Process {rank} exit with status code {codes[rank]}.", flush=True)
            if not failed.is_set():
                failed.set()
                print(f"Terminating remaining workers after failure of Process {rank}.", flush=True)
                for other in ranks:
                    if other.poll() is None:
                        other.terminate()

    threads = [threading.Thread(target=follow, args=item) for item in enumerate(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 1 if any(codes.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
