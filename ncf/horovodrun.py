"""`horovodrun`, some seconds faster: `python -m ncf.horovodrun -np 2 --gloo COMMAND...`.

Horovod's own launcher imports TensorFlow, twice, only to find out whether Gloo was built (3.5 s
on an idle 2-core machine, more on a busy one). The ranks find that out anyway. Everything else is
Horovod's; when a rank fails, one line replaces the launcher's traceback.
"""

from __future__ import annotations

import sys


def main(words: list[str]) -> int:
    """Launch the ranks; 0 if all of them ended well, else 1."""
    try:
        from horovod.runner import launch
    except ImportError as error:
        print(f"horovodrun: error: Horovod cannot be imported ({error})", file=sys.stderr)
        return 2
    if "--gloo" in words:
        launch.gloo_built = lambda verbose=False: True  # noqa: ARG005 - Horovod's signature
    sys.argv = ["horovodrun", *words]
    try:
        launch.run_commandline()
    except (RuntimeError, ValueError) as error:
        print(f"horovodrun: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
