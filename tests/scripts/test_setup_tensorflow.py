"""Set-up keeps the TensorFlow that a machine has, or chooses its own for CPU or CUDA."""

from __future__ import annotations

import pytest
from set_up_clone import Clone, a_clone, one_error_line  # noqa: F401 - a fixture


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
