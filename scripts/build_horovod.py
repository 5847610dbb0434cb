"""Build Horovod 0.28.1 for the TensorFlow of this Python and install it here.

Run it with the Python that has TensorFlow, as set-up does. The wheel is kept in
${NCF_BENCH_CACHE:-~/.cache/ncf-bench}/wheels, so that the next environment with the same
TensorFlow, Python and flavour installs it in seconds. The build happens in a throw-away folder
with its own build tools; only the wheel and what it needs at run time enter this environment.

flavours:
  cpu    Gloo; built and run on 2 ranks by us with TensorFlow 2.21 on Python 3.10 to 3.13 and 2.15
         on 3.11, built and imported with 2.20 on 3.12; 2.16 to 2.19: same recipe, untried by us
  cuda   Gloo and NCCL; needs nvcc (HOROVOD_CUDA_HOME or PATH) and NCCL (the nvidia-nccl-cu12
         wheel, or HOROVOD_NCCL_HOME). We compiled and imported it (2.21, nvcc 13.0, NCCL reported)
         but have NOT run it on a GPU.
  auto   cuda when nvidia-smi lists a GPU and TensorFlow is no CPU-only build, else cpu

exit codes: 0 done, 1 the build or the check failed, 2 usage, 3 no compiler (or CUDA tools)
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import horovod_recipe as recipe
import horovod_tools as tools
from horovod_log import cache_folder, log_file, logged, say
from horovod_tools import BuildError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

CHECK = """
import json, horovod, horovod.tensorflow as hvd, tensorflow as tf
from horovod.runner import launch
print(json.dumps({"horovod": horovod.__version__, "tensorflow": tf.__version__,
                  "gloo": bool(hvd.gloo_built()), "nccl": bool(hvd.nccl_built())}))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the options, do the work, turn an error into one line and an exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--flavour", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--force", action="store_true", help="build even if a wheel is cached")
    parser.add_argument("--wheel-only", action="store_true", help="build, print the path, stop")
    parser.add_argument("--check", action="store_true", help="only say what Horovod can do here")
    parser.add_argument("--keep-build", action="store_true", help="keep the build folder")
    parser.add_argument("--constraint", metavar="FILE", help="pins for Horovod's own needs")
    options = parser.parse_args(arguments)
    try:
        return run(options)
    except (BuildError, recipe.RecipeError) as error:
        print(f"build_horovod: error: {error}", file=sys.stderr)
        return getattr(error, "code", 1)


def run(options: argparse.Namespace) -> int:
    """Check, reuse, build and install, as the options say."""
    distribution, tensorflow = installed_tensorflow()
    flavour = recipe.flavour_for(options.flavour, distribution, gpu=tools.gpu_listed())
    if options.check or not (options.force or options.wheel_only):
        state, reason = installed_horovod()
        if state and usable(state, tensorflow, flavour):
            say(f"in place: {describe(state)}")
            if options.check:
                print(tools.check_build())
            return 0
        if options.check:
            reason = describe(state) if state else reason
            raise BuildError(
                f"no working Horovod ({flavour}) for TensorFlow {tensorflow}: {reason}"
            )
    cxx = tools.compiler()
    cuda_home = tools.cuda_home() if flavour == "cuda" else None
    changes = recipe.edits(tensorflow, sys.version_info[:2], flavour)
    settings = {k: os.environ[k] for k in recipe.USER_SETTINGS if k in os.environ}
    if cuda_home:
        settings["HOROVOD_CUDA_HOME"] = str(cuda_home)
        settings["nvcc"] = tools.output([str(cuda_home / "bin" / "nvcc"), "--version"])
    tag = str(sys.implementation.cache_tag)
    platform = sysconfig.get_platform()
    key = recipe.wheel_key(tensorflow, tag, platform, flavour, changes, settings)
    shelf = cache_folder() / "wheels" / key
    cached = sorted(shelf.glob("*.whl"))
    if cached and not options.force:
        say(f"cached wheel {cached[0]}")
        if deliver(cached[0], options):
            return 0
        say("the cached wheel does not work here; building afresh")
    with build_folder(keep=options.keep_build) as scratch:
        wheel = put_away(build(scratch, flavour, changes, cxx, cuda_home), shelf)
        if not deliver(wheel, options):
            raise BuildError("built and installed, but it does not import")
    return 0


def deliver(wheel: Path, options: argparse.Namespace) -> bool:
    """Print the wheel's path, or install it and say what it can; False if it does not import."""
    if options.wheel_only:
        print(wheel)
        return True
    install(wheel, options.constraint)
    state, reason = installed_horovod()
    say(f"installed: {describe(state)}" if state else f"import failed: {reason}")
    return state is not None


# --- what is there -----------------------------------------------------------------------------


def installed_tensorflow() -> tuple[str, str]:
    """The distribution that brought TensorFlow and its version, without importing it."""
    for found in importlib.metadata.distributions():
        name = str(found.metadata["Name"]).lower().replace("_", "-")
        if name in recipe.TENSORFLOW_NAMES:
            return name, found.version
    raise BuildError(
        f"{sys.executable} has no TensorFlow, which Horovod is built against; install it first "
        "(run set-up, or: pip install tensorflow-cpu)"
    )


def installed_horovod() -> tuple[dict[str, object] | None, str]:
    """What the Horovod of this environment says of itself, asked in a child; else None and why."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK], capture_output=True, text=True, check=False, cwd=sys.prefix
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return None, lines[-1]
    return json.loads(done.stdout.splitlines()[-1]), ""


def usable(state: Mapping[str, object], tensorflow: str, flavour: str) -> bool:
    """Whether an installed Horovod fits. One that the machine brought is kept as it is."""
    found = importlib.metadata.distribution("horovod").locate_file("")
    ours = Path(str(found)).resolve().is_relative_to(Path(sys.prefix).resolve())
    fits = recipe.numbers(str(state["tensorflow"])) == recipe.numbers(tensorflow)
    return not ours or (fits and (flavour == "cpu" or bool(state["nccl"])))


def describe(state: Mapping[str, object]) -> str:
    """The essential lines of `horovodrun --check-build` as one."""
    parts = [name for name in ("Gloo", "NCCL") if state[name.lower()]]
    return (
        f"Horovod {state['horovod']} with TensorFlow {state['tensorflow']} "
        f"(operations: {', '.join(parts) or 'none'})"
    )


# --- building ----------------------------------------------------------------------------------


@contextmanager
def build_folder(*, keep: bool) -> Iterator[Path]:
    """A scratch folder without blanks in its path: Horovod's CMake files split flags at blanks."""
    parent = "/tmp" if " " in tempfile.gettempdir() else None  # noqa: S108
    scratch = Path(tempfile.mkdtemp(prefix="horovod-build-", dir=parent))
    try:
        yield scratch
    finally:
        if keep:
            say(f"build folder kept: {scratch}")
        else:
            shutil.rmtree(scratch, ignore_errors=True)


def build(
    scratch: Path,
    flavour: str,
    changes: Sequence[recipe.Edit],
    cxx: Sequence[str],
    cuda_home: Path | None,
) -> Path:
    """Fetch, patch and compile in `scratch`; the wheel's path there."""
    jobs = tools.parallel_jobs()
    folder = scratch / "tools"
    env = recipe.environment(os.environ, flavour, jobs)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), env.get("PYTHONPATH")]))
    env["CXX"] = shlex.join(cxx)
    if cuda_home:
        env.update(tools.nccl_settings(scratch), HOROVOD_CUDA_HOME=str(cuda_home))
    needs = list(recipe.BUILD_NEEDS)
    if not tools.suitable_cmake():
        needs.append(recipe.CMAKE_NEED)
        env["HOROVOD_CMAKE"] = str(folder / "cmake" / "data" / "bin" / "cmake")
    if not shutil.which("make"):
        needs.append("ninja")
        env["CMAKE_GENERATOR"] = "Ninja"
        env["PATH"] = f"{folder / 'bin'}{os.pathsep}{env.get('PATH', os.defpath)}"
    python = unspaced_python(scratch)
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-qq"]
    with log_file() as log:
        say("fetching build tools and the Horovod source")
        logged([*pip, "install", "--target", str(folder), *needs], log, os.environ)
        source = unpack(fetch_source(scratch, pip, log, env), scratch)
        for edit in changes:
            path = source / edit.path
            path.write_text(edit.apply(path.read_text(encoding="utf-8")), encoding="utf-8")
        say(
            f"building Horovod {recipe.HOROVOD} ({flavour}, {jobs} jobs): 2 to 4 minutes on 2 cores"
        )
        say(f"log: {log}")
        dist = scratch / "dist"
        command = [python, "setup.py", "-q", "bdist_wheel", "--dist-dir", str(dist)]
        logged(command, log, env, cwd=source)
    wheels = list(dist.glob("*.whl"))
    if len(wheels) != 1:
        raise BuildError(f"the build made {len(wheels)} wheels instead of one; see {log}")
    return wheels[0]


def fetch_source(scratch: Path, pip: Sequence[str], log: Path, env: Mapping[str, str]) -> Path:
    """Download the source archive; pip checks its hash before it runs anything from it."""
    wanted = scratch / "horovod.txt"
    wanted.write_text(
        f"horovod=={recipe.HOROVOD} --hash=sha256:{recipe.SDIST_SHA256}\n", encoding="utf-8"
    )
    command = [*pip, "download", "--no-deps", "--no-build-isolation", "--no-binary", "horovod"]
    logged(
        [*command, "--require-hashes", "-d", str(scratch / "sdist"), "-r", str(wanted)], log, env
    )
    archive = scratch / "sdist" / f"horovod-{recipe.HOROVOD}.tar.gz"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != recipe.SDIST_SHA256:
        raise BuildError(f"{archive.name} has SHA-256 {digest}, not {recipe.SDIST_SHA256}")
    return archive


def unpack(archive: Path, scratch: Path) -> Path:
    """Unpack the source archive; the folder of the source tree."""
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(scratch, filter="data")
        else:  # Python 3.10 and 3.11 before their security releases; the hash was checked
            tar.extractall(scratch)  # noqa: S202
    return scratch / f"horovod-{recipe.HOROVOD}"


def put_away(wheel: Path, shelf: Path) -> Path:
    """Move a fresh wheel into the cache in one step; without a writable cache it stays."""
    try:
        shelf.mkdir(parents=True, exist_ok=True)
        part = shelf / f".{wheel.name}.{os.getpid()}"
        shutil.copyfile(wheel, part)
        part.replace(shelf / wheel.name)
    except OSError as error:
        say(f"not cached ({error}); the next environment builds again")
        return wheel
    return shelf / wheel.name


def install(wheel: Path, constraint: str | None) -> None:
    """Install the wheel and its run-time needs into this environment."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", "install"]
    pins = ["-c", constraint] if constraint else []
    # A wheel of the same version must replace one that was built for another TensorFlow.
    replace = ["--no-deps", "--force-reinstall", str(wheel)]
    for command in ([*pip, *pins, *recipe.RUN_NEEDS], [*pip, *replace]):
        if subprocess.run(command, check=False).returncode:
            raise BuildError(f"pip could not install {command[-1]}")


def unspaced_python(scratch: Path) -> str:
    """This interpreter, by a path without blanks when it lives in a virtual environment."""
    if sys.prefix == sys.base_prefix:
        return sys.executable
    link = scratch / "env"
    link.symlink_to(sys.prefix)
    return str(link / Path(sys.executable).relative_to(sys.prefix))


if __name__ == "__main__":
    # A terminated set-up must not leave the compilers running: unwind as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
