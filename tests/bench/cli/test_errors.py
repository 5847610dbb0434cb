"""What `bench` refuses: one line that names the way out, exit code 2, and nothing made or lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_folder import SUITE, a_folder, bench_command, fresh_options  # noqa: F401 - fixtures

from bench.host import machine as host
from bench.suite.trainer_options import TRAINER


def test_without_tensorflow_nothing_is_tried_and_one_line_says_so(bench, folder, monkeypatch):
    monkeypatch.setattr("bench.cli.session.trainer_versions", lambda *_: {"ncf": "0.1.0"})
    code, _, err = bench("run", "mine.toml", "--no-report")
    assert code == 2
    assert err.startswith("ncf-bench: error: training needs TensorFlow")
    assert err.count("\n") == 1
    assert not list(folder.glob("results/*/records/**/*.json"))


def test_a_report_of_nothing_says_what_to_do(bench):
    code, _, err = bench("report")
    assert code == 2
    assert "holds no records of a shipped suite: run one first" in err


def test_a_grid_of_which_nothing_can_run_here_is_refused_with_the_reason(bench, monkeypatch):
    monkeypatch.setattr(host, "read_gpus", lambda: ((), None, "no NVIDIA driver answers"))
    code, _, err = bench("run", "dgx", "--precision", "tf32", trainer=TRAINER)
    assert code == 2
    assert 'no cell of "dgx" can run here: the suite needs a GPU: no NVIDIA' in err
    assert not Path("results").exists()


def test_data_that_must_be_downloaded_are_one_line_and_leave_nothing(bench):
    Path("big.toml").write_text('[data]\nsource = "ml-20m"\n', encoding="utf-8")
    code, _, err = bench("run", "big.toml", trainer=TRAINER)
    assert code == 2
    assert err.startswith(
        "ncf-bench: error: big needs ml-20m: download https://files.grouplens.org/"
    )
    assert not Path("results/big").exists()


def test_a_suite_for_gpus_says_so_on_a_machine_without_and_tries_nothing(bench, monkeypatch):
    without = host.Host("cpu", 64, 1 << 40, no_gpus="no NVIDIA driver answers", horovodrun="/h")
    monkeypatch.setattr("bench.host.machine.read_host", lambda *_: without)
    code, _, err = bench("run", "dgx", trainer=TRAINER)
    assert (code, err.count("\n")) == (2, 1)
    assert 'no cell of "dgx" can run here: the suite needs a GPU: no NVIDIA driver answers' in err
    assert not Path("results/dgx").exists()
    code, out, _ = bench("plan", "dgx", trainer=TRAINER)
    assert code == 0
    assert out.count("not available: the suite needs a GPU") == 9


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["smok"], "unknown suite 'smok'; did you mean 'smoke'?"),
        (["reprot"], "unknown command or suite 'reprot'; did you mean 'report'?"),
        (["run"], "the following arguments are required: SUITE"),
        (["run", "none.toml"], "none.toml: No such file or directory"),
        (["mine.toml", "--timout", "5"], "unknown argument '--timout'; did you mean '--timeout'?"),
        (["mine.toml", "extra"], "unknown argument 'extra'"),
        (["mine.toml", "--timeout", "0"], "argument --timeout: expected a number above 0; got '0'"),
        (
            ["mine.toml", "--timeout", "nan"],
            "argument --timeout: expected a number above 0; got 'nan'",
        ),
        (
            ["mine.toml", "--max-failures", "0"],
            "--max_failures: expected an integer of at least 1; got '0'",
        ),
        (
            ["mine.toml", "--ranks", "one"],
            "argument --ranks: expected comma-separated integers such as 1,2; got 'one'",
        ),
        (["mine.toml", "--ranks", "8"], "--ranks 8: the suite has 1, 2"),
        (["mine.toml", "--precision", "fp16"], "--precision fp16: the suite has fp32"),
        (["mine.toml", "--data", "none"], "--data none: no such file or folder"),
        (["plan", "mine.toml", "--data", "none"], "--data none: no such file or folder"),
        (["mine.toml", "--results", "mine.toml"], "mine.toml"),
        (["mine.toml", "--data-root", "mine.toml"], "mine.toml"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_every_mistake_is_one_line_and_exit_code_2(words, message, bench):
    code, _, err = bench(*words, "--no-report") if words[0] == "mine.toml" else bench(*words)
    assert code == 2
    assert err.startswith("ncf-bench: error: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_mistake_in_a_suite_is_found_before_anything_is_made(bench, folder):
    (folder / "mine.toml").write_text(SUITE.replace("ranks =", "batch_sise = [1]\nranks ="))
    code, _, err = bench("mine.toml")
    assert code == 2
    assert err.startswith(
        "ncf-bench: error: mine.toml:4: unknown option 'batch_sise' in [axes]; did yo"
    )
    assert [path.name for path in folder.iterdir()] == ["mine.toml"]


def test_a_full_disk_or_a_read_only_folder_is_one_clear_line(bench, monkeypatch):
    import errno

    from bench import files

    def read_only(*_):
        raise OSError(errno.EROFS, "Read-only file system", "results/mine/records/x")

    monkeypatch.setattr(files.os, "fsync", read_only)
    code, _, err = bench("mine.toml", "--no-report")
    assert code == 2
    assert err == (
        "ncf-bench: error: results/mine/records/x: Read-only file system (stored records are "
        "intact; fix this and rerun)\n"
    )


def test_a_damaged_prepared_folder_is_one_line(bench):
    bench("mine.toml", "--no-report", "--ranks", "1")
    Path("data/synthetic-tiny-seed1/train_items.npy").unlink()
    code, _, err = bench("mine.toml", "--no-report")
    assert code == 2
    assert "train_items.npy is missing: run `ncf prepare` again" in err
