"""Set-up and start, with a stand-in for Python's venv and pip: which steps run, and what is said.

The stand-in answers `-c` and scripts with the real Python, less its packages; it makes
environments and "installs" by writing lines to a log. So every path of the shell scripts runs in
a fraction of a second.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

BASE = """#!/bin/sh
case "$*" in
  *_base_executable*) echo "$FAKES/${0##*/}"; exit 0 ;;
  "-m venv "*)
    echo "venv $*" >>"$FAKES/log"
    [ -z "$FAKE_VENV" ] || { echo "$FAKE_VENV"; exit 1; }
    for folder; do :; done
    mkdir -p "$folder/bin"
    { echo '#!/bin/sh'; echo "MADE_BY='$FAKES/${0##*/}'"; cat "$FAKES/venv-python"; } \
      >"$folder/bin/python"
    chmod +x "$folder/bin/python"; exit 0 ;;
esac
PYTHONPATH="$FAKES/base-packages" exec "$REAL" -S "$@"
"""
VENV_PYTHON = """
case "$*" in
  *_base_executable*) echo "$MADE_BY"; exit 0 ;;
  "-m pip "*) echo "pip $*" >>"$FAKES/log"; exit "${FAKE_PIP:-0}" ;;
  *build_horovod.py*) echo "horovod $*" >>"$FAKES/log"; exit "${FAKE_HOROVOD:-0}" ;;
  "-m bench "*) echo "bench $PWD $*" >>"$FAKES/log"; echo table; exit "${FAKE_BENCH:-0}" ;;
  *"import pip"*) exit 0 ;;
esac
exec "$REAL" -S "$@"
"""


@dataclass
class Clone:
    """A copy of the shell scripts in a folder with a blank in its name, and its stand-ins."""

    root: Path
    fakes: Path
    env: dict[str, str] = field(default_factory=dict)

    def start(self, script: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("NCF_BENCH_", "PYTHON"))}
        return subprocess.run(
            ["bash", str(self.root / script), *arguments],
            env=kept | self.env | env,
            cwd=self.fakes,
            capture_output=True,
            text=True,
            check=False,
        )

    def set_up(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.start("scripts/setup.sh", *arguments, **env)

    def steps(self) -> list[str]:
        """The first words of what was done since the last question."""
        log = self.fakes / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def kinds(self) -> list[str]:
        return [line.split()[0] for line in self.steps()]

    @property
    def stamp(self) -> Path:
        return self.root / ".venv" / ".ncf-bench-stamp"


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    root = tmp_path / "a clone"
    (root / "scripts").mkdir(parents=True)
    for name in (
        "run_benchmarks.sh",
        "pyproject.toml",
        "constraints.txt",
        "scripts/setup.sh",
        "scripts/build_horovod.py",
        "scripts/horovod_recipe.py",
        "scripts/horovod_log.py",
        "scripts/horovod_tools.py",
    ):
        shutil.copy(ROOT / name, root / name)
    fakes = tmp_path / "fakes"
    (fakes / "base-packages").mkdir(parents=True)
    for name, text in (("python3", BASE), ("venv-python", VENV_PYTHON), ("nvidia-smi", "")):
        (fakes / name).write_text(text or "#!/bin/sh\nexit 9\n")
        (fakes / name).chmod(0o755)
    path = f"{fakes}{os.pathsep}{os.environ['PATH']}"
    return Clone(root, fakes, {"FAKES": str(fakes), "REAL": sys.executable, "PATH": path})


def one_error_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("set-up: error: ")
    return line


# --- set-up ------------------------------------------------------------------------------------


def test_a_first_set_up_makes_installs_builds_and_says_how_long_each_took(clone: Clone) -> None:
    done = clone.set_up()
    assert done.returncode == 0, done.stderr
    venv, pip, horovod = clone.steps()
    assert "--system-site-packages" not in venv
    assert "-e .[cpu]" in pip
    assert "constraints.txt" in pip
    assert "--flavour cpu" in horovod
    assert len(re.findall(r"took \d+ s", done.stdout)) == 3
    assert "horovod=ok" in clone.stamp.read_text()


def test_a_second_set_up_does_nothing(clone: Clone) -> None:
    clone.set_up()
    clone.steps()
    assert clone.set_up().stdout.startswith("set-up: ready")
    assert clone.steps() == []


@pytest.mark.parametrize(
    "name", ["pyproject.toml", "constraints.txt", "scripts/horovod_recipe.py", "scripts/setup.sh"]
)
def test_a_changed_requirement_installs_again_into_the_same_environment(
    name: str, clone: Clone
) -> None:
    clone.set_up()
    clone.steps()
    with (clone.root / name).open("a") as file:
        file.write("\n# changed\n")
    assert clone.set_up().returncode == 0
    assert clone.kinds() == ["pip", "horovod"]


def test_the_development_tools_are_added_once_and_stay(clone: Clone) -> None:
    clone.set_up()
    clone.steps()
    clone.set_up("--dev")
    assert any("-e .[cpu,dev]" in line for line in clone.steps())
    clone.set_up("--dev")
    clone.set_up()
    assert clone.steps() == []
    (clone.root / "constraints.txt").write_text("")
    clone.set_up()
    assert any("-e .[cpu,dev]" in line for line in clone.steps())


def test_no_compiler_ends_well_and_the_next_set_up_tries_only_horovod_again(clone: Clone) -> None:
    assert clone.set_up(FAKE_HOROVOD="3").returncode == 0
    assert "horovod=missing" in clone.stamp.read_text()
    clone.steps()
    assert clone.set_up(FAKE_HOROVOD="3").returncode == 0
    assert clone.kinds() == ["horovod"]
    assert clone.set_up().returncode == 0
    assert clone.kinds() == ["horovod"]
    assert "horovod=ok" in clone.stamp.read_text()


def test_a_failed_build_is_an_error_that_names_the_way_on(clone: Clone) -> None:
    assert "NCF_BENCH_HOROVOD=skip" in one_error_line(clone.set_up(FAKE_HOROVOD="1"))
    assert not clone.stamp.exists()
    clone.steps()
    assert clone.set_up(NCF_BENCH_HOROVOD="skip").returncode == 0
    assert "horovod" not in clone.kinds()
    assert clone.set_up(NCF_BENCH_HOROVOD="skip").returncode == 0
    assert clone.kinds() == []
    clone.set_up()
    assert clone.kinds() == ["horovod"]


def test_an_interrupted_installation_is_made_anew(clone: Clone) -> None:
    assert clone.set_up(FAKE_PIP="1").returncode == 2
    assert not clone.stamp.exists()
    clone.steps()
    assert clone.set_up().returncode == 0
    assert clone.kinds() == ["venv", "pip", "horovod"]


def test_an_environment_whose_python_is_gone_is_made_anew(clone: Clone) -> None:
    clone.set_up()
    clone.steps()
    (clone.root / ".venv/bin/python").unlink()
    assert clone.set_up().returncode == 0
    assert clone.kinds() == ["venv", "pip", "horovod"]


def test_a_moved_clone_gets_a_new_environment(clone: Clone) -> None:
    clone.set_up()
    clone.steps()
    clone.root = clone.root.rename(clone.root.with_name("moved"))
    assert clone.set_up().returncode == 0
    assert clone.kinds() == ["venv", "pip", "horovod"]


def test_the_python_of_the_first_set_up_is_kept_when_none_is_named(clone: Clone) -> None:
    shutil.copy(clone.fakes / "python3", clone.fakes / "python3.12")
    clone.set_up(PYTHON="python3.12")
    clone.steps()
    assert clone.set_up().stdout.startswith("set-up: ready")
    assert clone.steps() == []
    clone.set_up(PYTHON="python3")
    assert clone.kinds() == ["venv", "pip", "horovod"]


def test_a_folder_that_set_up_did_not_make_is_left_alone(clone: Clone, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years of work")
    line = one_error_line(clone.set_up(NCF_BENCH_VENV=str(theirs)))
    assert str(theirs) in line
    assert (theirs / "thesis.tex").exists()
    assert clone.steps() == []


def test_the_environment_goes_where_the_variable_says(clone: Clone, tmp_path: Path) -> None:
    assert clone.set_up(NCF_BENCH_VENV=str(tmp_path / "else where")).returncode == 0
    assert (tmp_path / "else where/bin/python").exists()
    assert not (clone.root / ".venv").exists()


def base_has(clone: Clone, name: str, version: str, *needs: str, imports: bool = True) -> None:
    packages = clone.fakes / "base-packages"
    info = packages / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {need}" for need in needs]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    module = "" if imports else "raise ImportError"
    (packages / "tensorflow.py").write_text(module)


def test_a_tensorflow_that_the_machine_has_is_kept_with_all_it_needs(clone: Clone) -> None:
    base_has(clone, "tensorflow", "2.17.0+nv25.2", "numpy<2", "horovod; extra == 'hvd'")
    base_has(clone, "numpy", "1.26.4")
    base_has(clone, "pandas", "2.2.0")
    done = clone.set_up()
    assert done.returncode == 0, done.stderr
    assert "keeping TensorFlow 2.17.0+nv25.2" in done.stdout
    venv, pip, horovod = clone.steps()
    assert "--system-site-packages" in venv
    assert "-e . " in f"{pip} "
    assert "/constraints.txt" not in pip
    assert "--flavour" not in horovod
    pins = (clone.root / ".venv/base-constraints.txt").read_text().split()
    assert "tensorflow==2.17.0+nv25.2" in pins
    assert "numpy==1.26.4" in pins
    assert not any(pin.startswith(("pandas", "horovod")) for pin in pins)


@pytest.mark.parametrize("version", ["2.14.1", "2.2.0", "2.22.0", "1.15.5", "3.0.0"])
def test_a_tensorflow_out_of_range_is_not_used(version: str, clone: Clone) -> None:
    base_has(clone, "tensorflow", version)
    clone.set_up()
    venv, pip, _ = clone.steps()
    assert "--system-site-packages" not in venv
    assert "-e .[cpu]" in pip


def test_a_tensorflow_that_does_not_import_is_not_used(clone: Clone) -> None:
    base_has(clone, "tensorflow", "2.20.0", imports=False)
    done = clone.set_up()
    assert "does not import" in done.stdout
    assert any("-e .[cpu]" in line for line in clone.steps())
    clone.set_up()
    assert clone.steps() == []


def test_an_explicit_flavour_asks_for_our_own_tensorflow(clone: Clone) -> None:
    base_has(clone, "tensorflow", "2.20.0")
    clone.set_up(NCF_BENCH_FLAVOUR="cuda")
    _, pip, horovod = clone.steps()
    assert "-e .[cuda]" in pip
    assert "--flavour cuda" in horovod


def test_a_listed_gpu_chooses_cuda_and_its_loss_makes_the_environment_anew(clone: Clone) -> None:
    (clone.fakes / "nvidia-smi").write_text("#!/bin/sh\necho 'GPU 0: A100 (UUID: GPU-1)'\n")
    clone.set_up()
    assert any("-e .[cuda]" in line for line in clone.steps())
    (clone.fakes / "nvidia-smi").write_text("#!/bin/sh\necho 'No devices were found'\n")
    clone.set_up()
    assert clone.kinds() == ["venv", "pip", "horovod"]


def test_an_unknown_flavour_is_one_line(clone: Clone) -> None:
    assert "choose cpu or cuda" in one_error_line(clone.set_up(NCF_BENCH_FLAVOUR="rocm"))


def test_an_unknown_option_is_one_line(clone: Clone) -> None:
    assert "--dev" in one_error_line(clone.set_up("--devel"))


def test_a_python_that_is_not_there_is_one_line(clone: Clone) -> None:
    assert "PYTHON=python9" in one_error_line(clone.set_up(PYTHON="python9"))


def test_a_python_out_of_range_is_one_line_with_its_version(clone: Clone) -> None:
    old = clone.fakes / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.18\nexit 1\n')
    old.chmod(0o755)
    line = one_error_line(clone.set_up(PYTHON=str(old)))
    assert "Python 3.9.18" in line
    assert "3.10 to 3.13" in line


def test_a_python_without_venv_names_the_package(clone: Clone) -> None:
    said = "The virtual environment was not created: ensurepip is not available."
    assert "python3-venv" in one_error_line(clone.set_up(FAKE_VENV=said))
    assert not (clone.root / ".venv").exists()


@pytest.mark.skipif(not shutil.which("flock"), reason="no flock here")
def test_two_set_ups_at_once_do_the_work_once(clone: Clone) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NCF_BENCH_", "PYTHON"))}
    both = [
        subprocess.Popen(
            ["bash", str(clone.root / "scripts/setup.sh")],
            env=env | clone.env,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for child in both:
        child.communicate()
        assert child.returncode == 0
    assert clone.kinds() == ["venv", "pip", "horovod"]


# --- start -------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_needs_no_set_up(word: str, tmp_path: Path) -> None:
    alone = tmp_path / "run_benchmarks.sh"
    shutil.copy(ROOT / "run_benchmarks.sh", alone)
    done = subprocess.run(["bash", str(alone), word], capture_output=True, text=True, check=True)
    assert "./run_benchmarks.sh dgx --data ml-20m.zip" in done.stdout
    assert "NCF_BENCH_VENV" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["run_benchmarks.sh"]


def test_without_arguments_the_smoke_suite_runs(clone: Clone) -> None:
    done = clone.start("run_benchmarks.sh")
    assert done.returncode == 0
    assert clone.steps()[-1].endswith(" -m bench run smoke")


def test_arguments_pass_through_and_paths_keep_their_folder(clone: Clone) -> None:
    clone.start("run_benchmarks.sh", "dgx", "--data", "ml-20m.zip")
    assert clone.steps()[-1] == f"bench {clone.fakes} -m bench dgx --data ml-20m.zip"


def test_standard_output_is_the_benchmarks_own(clone: Clone) -> None:
    assert clone.start("run_benchmarks.sh").stdout == "table\n"


@pytest.mark.parametrize("code", [0, 2, 7])
def test_the_exit_code_is_the_benchmarks(code: int, clone: Clone) -> None:
    assert clone.start("run_benchmarks.sh", "plan", FAKE_BENCH=str(code)).returncode == code


def test_a_failed_set_up_starts_nothing(clone: Clone) -> None:
    done = clone.start("run_benchmarks.sh", FAKE_PIP="1")
    assert done.returncode == 2
    assert clone.kinds() == ["venv", "pip"]


def test_a_link_to_the_script_finds_its_clone(clone: Clone, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "benchmarks"
    link.parent.mkdir()
    link.symlink_to(clone.root / "run_benchmarks.sh")
    clone.root, script = link.parent, link.name
    assert clone.start(script, "plan").returncode == 0
    assert clone.steps()[-1].endswith("-m bench plan")


@pytest.mark.parametrize("name", ["run_benchmarks.sh", "scripts/setup.sh", ".ci/run"])
def test_the_scripts_parse_and_can_be_started(name: str) -> None:
    subprocess.run(["bash", "-n", str(ROOT / name)], check=True)
    assert os.access(ROOT / name, os.X_OK)


def test_make_lists_every_target_with_what_it_does() -> None:
    if not shutil.which("make"):
        pytest.skip("no make here")
    done = subprocess.run(
        ["make", "-C", str(ROOT), "--no-print-directory"],
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = "install lint type test test-all bench-smoke report clean"
    assert set(wanted.split()) <= {line.split()[0] for line in done.stdout.splitlines() if line}


# --- pins --------------------------------------------------------------------------------------


def test_every_dependency_is_pinned() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = text[text.index("dependencies = [") : text.index("[project.scripts]")]
    names = re.findall(r'^\s*(?:\w+ = \[)?"([A-Za-z0-9-]+)', project, flags=re.MULTILINE)
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = {line.split("==")[0] for line in pins.splitlines() if "==" in line}
    assert len(names) > 12
    assert set(names) <= pinned
