"""Whole runs on a small planted data set, in this process."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_training import QUICK, SMALL, run
from toy import import_tensorflow, toy_folder

from ncf import record
from ncf.config.train import config_from_arguments
from ncf.errors import UserError
from ncf.training import epoch_log

tf = import_tensorflow()
from tensorflow.core.util import event_pb2

from ncf.sampling.batching import Share
from ncf.training import train

pytestmark = pytest.mark.tf
SLOW_BETAS = ["--beta1", "0.9", "--beta2", "0.999"]


@pytest.fixture(autouse=True)
def signals_of_pytest():
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("data") / "toy"
    toy_folder(folder)
    return str(folder)


def losses(run_record: record.RunRecord) -> list[float]:
    return [epoch.loss for epoch in run_record.epochs]


def test_training_finds_the_planted_preference_that_popularity_cannot(data, tmp_path) -> None:
    code, result = run(data, tmp_path, "--epochs", "12", "--no_neg_trick", *SLOW_BETAS)
    assert code == 0
    assert losses(result)[-1] < 0.8 * losses(result)[0]
    best = max(epoch.hr_at_k or 0 for epoch in result.epochs)
    assert best > 1.2 * result.dataset.popularity_hr_at_k


def test_the_same_seed_gives_the_same_run_and_another_seed_another(data, tmp_path) -> None:
    first = run(data, tmp_path, "--epochs", "3")[1]
    again = run(data, tmp_path, "--epochs", "3")[1]
    other = run(data, tmp_path, "--epochs", "3", seed=2)[1]
    assert losses(first) == losses(again)
    assert [e.hr_at_k for e in first.epochs] == [e.hr_at_k for e in again.epochs]
    assert losses(first) != losses(other)
    assert first.dataset.candidates_hash == other.dataset.candidates_hash


def test_a_seed_that_was_not_given_is_drawn_and_recorded(data, tmp_path) -> None:
    path = tmp_path / "run.json"
    words = ["--data", data, "--record", str(path), "--epochs", "1", *SMALL]
    words += ["--learning_rate", "0.01"]
    train.run(config_from_arguments(words))
    result = record.read_run(path)
    assert result.seed == result.config["seed"]
    again = run(data, tmp_path, "--epochs", "1", seed=result.seed)[1]
    assert losses(again) == losses(result)


def test_the_run_stops_as_soon_as_the_target_is_reached(data, tmp_path) -> None:
    result = run(data, tmp_path, *QUICK, "--epochs", "5", "--target", "0.01")[1]
    assert len(result.epochs) == 1


def test_evaluation_starts_after_the_epoch_it_was_told(data, tmp_path) -> None:
    result = run(data, tmp_path, *QUICK, "--epochs", "3", "--eval_after", "3")[1]
    assert [epoch.hr_at_k is None for epoch in result.epochs] == [True, True, False]


def test_a_model_that_diverges_ends_as_nan_without_a_rate(data, tmp_path) -> None:
    code, result = run(data, tmp_path, "--epochs", "3", "--learning_rate", "1e38")
    assert (code, result.status) == (3, "nan")
    assert "not finite" in (result.reason or "")


def test_mixed_precision_is_probed_and_recorded(data, tmp_path) -> None:
    result = run(data, tmp_path, *QUICK, "--epochs", "1", "--amp")[1]
    assert (result.precision.requested, result.precision.effective) == ("amp", "amp")
    assert result.precision.compute_dtype == "bfloat16"
    assert result.precision.probe["mantissa_bits"] == 7


def test_float16_scales_the_loss_and_skips_updates_that_overflow(data, tmp_path) -> None:
    half = ["--epochs", "2", "--amp", "--amp_dtype", "float16"]
    plain = run(data, tmp_path, *half)[1]
    assert losses(plain)[1] < losses(plain)[0]
    # At this scale every gradient overflows float16: nothing is learnt, nothing is broken.
    huge = run(data, tmp_path, *half, "--loss_scale", "1e38")
    assert huge[0] == 0
    assert losses(huge[1])[1] == pytest.approx(losses(huge[1])[0], rel=1e-3)


def test_a_fixed_loss_scale_that_is_a_power_of_two_changes_nothing(data, tmp_path) -> None:
    plain = run(data, tmp_path, "--epochs", "2", "--amp")[1]
    scaled = run(data, tmp_path, "--epochs", "2", "--amp", "--loss_scale", "128")[1]
    assert losses(scaled) == pytest.approx(losses(plain), rel=1e-5)


def test_xla_computes_the_same_model(data, tmp_path) -> None:
    plain = run(data, tmp_path, "--epochs", "2", "--dropout", "0")[1]
    compiled = run(data, tmp_path, "--epochs", "2", "--dropout", "0", "--xla")[1]
    assert losses(compiled) == pytest.approx(losses(plain), rel=1e-4)


def test_other_candidates_than_prepared_are_drawn_and_hashed(data, tmp_path) -> None:
    stored = run(data, tmp_path, *QUICK, "--epochs", "1")[1].dataset
    other = ["--valid_negative", "25", "--protocol", "unique"]
    drawn = run(data, tmp_path, *QUICK, "--epochs", "1", *other)[1]
    assert (drawn.dataset.candidates_per_user, drawn.dataset.protocol) == (25, "unique")
    assert (stored.candidates_per_user, stored.protocol) == (20, "nvidia")
    assert drawn.dataset.candidates_hash != stored.candidates_hash
    assert drawn.dataset.effective_candidates_mean == 25


def test_a_resumed_run_continues_exactly_where_the_other_would_have_gone(data, tmp_path) -> None:
    whole = run(data, tmp_path, "--epochs", "4")[1]
    folder = tmp_path / "checkpoints"
    run(data, tmp_path, "--epochs", "2", "--checkpoint_dir", str(folder))
    last = str(folder / "last.npz")
    rest = run(data, tmp_path, "--epochs", "4", "--load_checkpoint_path", last)[1]
    assert losses(rest) == losses(whole)[2:]
    tested = run(data, tmp_path, "--mode", "test", "--load_checkpoint_path", last)[1]
    assert [e.hr_at_k for e in tested.epochs] == [whole.epochs[1].hr_at_k]


def test_a_checkpoint_of_another_model_is_refused_by_name(data, tmp_path) -> None:
    run(data, tmp_path, *QUICK, "--epochs", "1", "--checkpoint_dir", str(tmp_path))
    best = str(tmp_path / "best.npz")
    with pytest.raises(UserError, match=r"gmf_user is \[60, 8\] there and \[60, 4\] here"):
        run(data, tmp_path, *QUICK, "--factors", "4", "--load_checkpoint_path", best)
    (tmp_path / "cut.npz").write_bytes(Path(best).read_bytes()[:500])
    with pytest.raises(UserError, match="damaged or not a checkpoint"):
        run(data, tmp_path, *QUICK, "--load_checkpoint_path", str(tmp_path / "cut.npz"))
    with pytest.raises(UserError, match="no such file"):
        run(data, tmp_path, *QUICK, "--load_checkpoint_path", str(tmp_path / "none.npz"))
    toy_folder(tmp_path / "other", per_user=10)
    with pytest.raises(UserError, match="trained on data"):
        run(
            str(tmp_path / "other"),
            tmp_path,
            *QUICK,
            "--epochs",
            "5",
            "--load_checkpoint_path",
            best,
        )


def test_warm_up_that_leaves_nothing_to_time_is_an_error(data, tmp_path) -> None:
    # 3,300 samples in batches of 512 are 7 steps.
    with pytest.raises(UserError, match="--warmup_steps 14: the run has only 14 steps"):
        run(data, tmp_path, *QUICK, "--epochs", "2", "--warmup_steps", "14")
    result = run(data, tmp_path, *QUICK, "--epochs", "2", "--warmup_steps", "13")[1]
    # 102 positives with their negatives fit into 512 samples.
    assert [epoch.timed_samples for epoch in result.epochs] == [0, 3300 - 6 * 510]


def test_samples_and_seconds_of_a_throughput_come_from_the_same_steps() -> None:
    # 10 steps of batch 100, 1 s each, 3 of them warm-up: exactly 100 samples/s.
    now = [0.0]

    class Step:
        """Takes a second a step."""

        loss_sum = SimpleNamespace(assign=lambda _: None, numpy=lambda: 500.0)
        waited = SimpleNamespace(assign=lambda _: None)

        def __call__(self, _keys, _dropout_key, _begin, shares) -> None:
            now[0] += len(shares)

    setup = SimpleNamespace(
        config=SimpleNamespace(warmup_steps=3, batch_size=100, verbose=False),
        ranks=SimpleNamespace(rank=0, size=1, is_first=False, sum=list, max=list),
        sampler=SimpleNamespace(group_size=5),
        samples=1000,
        step=Step(),
        shares=[Share(20 * step, 20, 20, 20) for step in range(10)],
        epoch_keys=lambda _epoch: (None, None),
    )
    run_ = train.Run(setup, epoch_log.Logger("", lambda: 0.0), lambda: now[0], setup_seconds=0.0)
    entry = run_._train_epoch(1)
    assert (entry.timed_samples, entry.timed_seconds) == (700, 7.0)
    assert entry.timed_samples / entry.timed_seconds == 100.0
    assert (entry.samples, entry.train_seconds, entry.loss) == (1000, 10.0, 0.5)
    assert run_.warmup_seconds == 3.0


def test_the_log_has_parameters_epochs_and_a_summary(data, tmp_path) -> None:
    log = tmp_path / "log.json"
    result = run(data, tmp_path, *QUICK, "--epochs", "2", "--log_path", str(log))[1]
    lines = [json.loads(line.removeprefix("DLLL ")) for line in log.read_text("utf-8").splitlines()]
    assert {line["type"] for line in lines} == {"LOG"}
    assert [line["step"] for line in lines] == ["PARAMETER", [1], [2], []]
    assert (lines[0]["data"]["batch_size"], lines[0]["data"]["world_size"]) == (512, 1)
    assert lines[1]["data"]["hr@5"] == result.epochs[0].hr_at_k
    assert lines[3]["data"]["best_accuracy"] == max(e.hr_at_k or 0 for e in result.epochs)
    assert lines[3]["data"]["mean_train_throughput"] > 0


def test_tensorboard_gets_every_figure_of_every_epoch(data, tmp_path) -> None:
    folder = tmp_path / "tb" / "run"
    result = run(
        data, tmp_path, "--epochs", "2", "--eval_after", "2", "--tensorboard", str(folder)
    )[1]
    (file,) = folder.iterdir()
    found = {
        (value.tag, event.step): float(tf.make_ndarray(value.tensor))
        for event in (event_pb2.Event.FromString(raw) for raw in raw_records(file))
        for value in event.summary.value
    }
    assert set(found) == {
        ("loss", 1), ("samples_per_second", 1), ("loss", 2), ("samples_per_second", 2),
        ("hr@5", 2), ("ndcg@5", 2),
    }  # fmt: skip
    assert found["loss", 2] == pytest.approx(result.epochs[1].loss)
    assert found["hr@5", 2] == pytest.approx(result.epochs[1].hr_at_k)


def raw_records(file: Path) -> list[bytes]:
    return [raw.numpy() for raw in tf.data.TFRecordDataset(str(file))]


def test_a_tensorboard_folder_that_cannot_be_made_is_found_before_training(data, tmp_path) -> None:
    (tmp_path / "tb").write_text("in the way")
    with pytest.raises(UserError, match=r"--tensorboard .*tb"):
        run(data, tmp_path, *QUICK, "--epochs", "1", "--tensorboard", str(tmp_path / "tb"))


def test_the_record_names_machine_versions_and_memory(data, tmp_path) -> None:
    result = run(data, tmp_path, *QUICK, "--epochs", "1")[1]
    assert result.versions["tensorflow"] == tf.__version__
    assert result.hardware["device"] == "cpu"
    assert result.hardware["cores"] >= 1
    assert result.peak_memory_bytes_per_rank[0] > 50e6
    assert result.config["data"] == "toy"


def test_another_effective_precision_makes_the_run_invalid(data, tmp_path, monkeypatch) -> None:
    lied = record.Precision("fp32", "tf32 or float16", "float32")
    monkeypatch.setattr("ncf.model.precision.probe", lambda *_: lied)
    code, result = run(data, tmp_path, *QUICK, "--epochs", "1")
    assert (code, result.status, result.epochs) == (4, "invalid", ())


def test_an_interrupt_leaves_a_record_of_the_epochs_done(data, tmp_path, monkeypatch) -> None:
    original = train.Run._report

    def report(self, entry) -> None:
        original(self, entry)
        if entry.epoch == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(train.Run, "_report", report)
    code, result = run(data, tmp_path, *QUICK, "--epochs", "5")
    assert (code, result.status, len(result.epochs)) == (130, "interrupted", 2)


def test_a_second_request_to_stop_does_not_cut_the_record_short(data, tmp_path, monkeypatch):
    original = train.Run.finish

    def finish(self, *args) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        original(self, *args)

    def report(_self, _entry) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(train.Run, "_report", report)
    monkeypatch.setattr(train.Run, "finish", finish)
    code, result = run(data, tmp_path, *QUICK, "--epochs", "5")
    assert (code, result.status) == (130, "interrupted")


def test_a_signal_that_comes_out_as_a_librarys_error_is_still_an_interrupt(
    data, tmp_path, monkeypatch
) -> None:
    def report(_self, _entry) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            raise RuntimeError("MISMATCH of original and active exception types") from None

    monkeypatch.setattr(train.Run, "_report", report)
    code, result = run(data, tmp_path, *QUICK, "--epochs", "5")
    assert (code, result.status) == (130, "interrupted")
