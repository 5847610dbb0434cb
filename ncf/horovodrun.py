"""`horovodrun`, some seconds faster: `python -m ncf.horovodrun -np 2 --gloo COMMAND...`.

Horovod's own launcher imports TensorFlow, twice, only to find out whether Gloo was built (3.5 s
on an idle 2-core machine, more on a busy one). The ranks find that out anyway. Everything else is
Horovod's; when a rank fails, one line replaces the launcher's traceback.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


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


def open_store(size: int) -> int:
    """Open the server through which `size` Gloo ranks of this host meet; returns its port.

    It lives as long as this process.
    """
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousServer

    server = RendezvousServer()
    port = server.start()
    server.init(get_host_assignments(parse_hosts(f"localhost:{size}"), size))
    return int(port)


def was_built_with_mpi() -> bool:
    """Whether Horovod's library for TensorFlow is linked to MPI; read without loading it."""
    spec = importlib.util.find_spec("horovod")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        for library in Path(folder, "tensorflow").glob("mpi_lib*.so"):
            return b"libmpi." in library.read_bytes()
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
