from __future__ import annotations

import json
import sys

import pytest
from paths import SUPPORT
from sample_records import make_suite
from stub_trainer import write_data

from bench.errors import UserError
from bench.process.supervise import Stop
from bench.records.identity import DataIdentity
from bench.suite.model import DataSpec
from bench.sweep import data
from bench.sweep.data import Resolver, content_hash, read_prepared

TRAINER = (sys.executable, str(SUPPORT / "stub_trainer.py"))
SYNTHETIC = make_suite(data=DataSpec(synthetic="100k"))
ML_100K = make_suite(name="real", data=DataSpec(source="ml-100k", seed=3))


@pytest.fixture
def said():
    return []


@pytest.fixture
def resolver(tmp_path, said):
    return Resolver(tmp_path / "data", Stop(), said.append, TRAINER)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_synthetic_data_are_made_once_and_found_again(resolver, said):
    assert resolver.find(SYNTHETIC, None) is None
    made = resolver.resolve(SYNTHETIC, None)
    assert made.folder == resolver.root / "synthetic-100k-seed1"
    assert made.identity == DataIdentity("0123456789abcdef", "feedfacefeedface")
    assert "synthesize --preset 100k --output" in said[0]
    before = len(said)
    assert resolver.resolve(SYNTHETIC, None) == resolver.find(SYNTHETIC, None) == made
    assert len(said) == before
    assert names(resolver.root) == ["synthetic-100k-seed1"]


def test_the_folders_name_says_what_made_it(resolver):
    suite = make_suite(
        data=DataSpec(synthetic="tiny", seed=7), train={"protocol": "unique", "valid_negative": 50}
    )
    assert resolver.resolve(suite, None).folder.name == "synthetic-tiny-unique-50-seed7"


def test_a_raw_file_is_prepared_under_a_name_that_holds_its_content(resolver, tmp_path, said):
    raw = tmp_path / "ml-100k.zip"
    raw.write_bytes(b"ratings")
    first = resolver.resolve(ML_100K, str(raw))
    assert first.folder.name == f"ml-100k-{content_hash(raw)}-seed3"
    assert first.known_as == "ml-100k"
    assert not any("note:" in line for line in said)
    raw.write_bytes(b"other ratings")
    assert resolver.resolve(ML_100K, str(raw)).folder != first.folder


def test_a_prepared_folder_is_used_as_it_is(resolver, tmp_path, said):
    write_data(tmp_path / "mine", "ml-100k")
    assert resolver.resolve(ML_100K, str(tmp_path / "mine")).folder == tmp_path / "mine"
    assert said == []


def test_data_that_are_not_what_the_suite_is_made_for_are_noted(resolver, tmp_path, said):
    write_data(tmp_path / "mine", "ml-1m")
    resolver.resolve(ML_100K, str(tmp_path / "mine"))
    write_data(tmp_path / "own")
    resolver.resolve(ML_100K, str(tmp_path / "own"))
    resolver.resolve(SYNTHETIC, str(tmp_path / "own"))
    assert said[0] == "note: real is made for ml-100k; these data are known as ml-1m"
    assert said[1] == "note: real is made for ml-100k; these data are not recognised"
    assert said[2].startswith("note: sample is made for synthetic 100k; this run is on ")


def test_ml_100k_is_fetched_and_prepared_once(resolver, tmp_path, monkeypatch, said):
    script = tmp_path / "fetch_ml100k.py"
    script.write_text(
        "import pathlib, sys\np = pathlib.Path(sys.argv[2]); p.parent.mkdir(exist_ok=True)\n"
        "p.write_text('user_id:token'); print('fetched', sys.argv[1])\n"
    )
    monkeypatch.setattr(data, "SCRIPTS", tmp_path)
    made = resolver.resolve(ML_100K, None)
    assert made.known_as == "ml-100k"
    assert "    fetched --output" in said
    said.clear()
    assert resolver.resolve(ML_100K, None) == resolver.find(ML_100K, None) == made
    assert said == []


def test_a_fetch_that_fails_shows_its_last_line(resolver, tmp_path, monkeypatch):
    script = tmp_path / "fetch_ml100k.py"
    script.write_text(
        "import sys; sys.exit('fetch_ml100k: error: no network; download it yourself')"
    )
    monkeypatch.setattr(data, "SCRIPTS", tmp_path)
    with pytest.raises(UserError, match=r"could not be made: no network; download it yourself$"):
        resolver.resolve(ML_100K, None)


def test_data_that_no_program_may_fetch_name_the_address_and_the_option(resolver):
    suite = make_suite(name="dgx", data=DataSpec(source="ml-20m"))
    with pytest.raises(UserError) as caught:
        resolver.resolve(suite, None)
    assert str(caught.value) == (
        "dgx needs ml-20m: download https://files.grouplens.org/datasets/movielens/ml-20m.zip "
        "and pass --data ml-20m.zip"
    )
    assert resolver.find(suite, None) is None


def test_a_zip_that_lies_in_the_data_folder_is_taken(resolver):
    resolver.root.mkdir()
    (resolver.root / "ml-20m.zip").write_bytes(b"zip")
    made = resolver.resolve(make_suite(data=DataSpec(source="ml-20m")), None)
    assert made.folder.name.startswith("ml-20m-")


@pytest.mark.parametrize("given", ["none.zip", "none"])
def test_missing_data_are_named(given, resolver):
    with pytest.raises(UserError, match=f"--data {given}: no such file or folder"):
        resolver.resolve(SYNTHETIC, given)


def test_a_preparation_that_fails_shows_the_trainers_line(resolver, tmp_path, monkeypatch):
    raw = tmp_path / "ratings.csv"
    raw.write_text("x")
    monkeypatch.setenv("STUB_PREPARE", "fail")
    with pytest.raises(UserError) as caught:
        resolver.resolve(SYNTHETIC, str(raw))
    assert str(caught.value).endswith(
        "could not be made: ratings.csv: one column found; a separator is missing"
    )


def test_if_another_sweep_was_quicker_its_folder_is_taken(resolver, monkeypatch):
    def too_late(self, command, target):
        write_data(target)
        raise UserError("exists")

    monkeypatch.setattr(Resolver, "_run", too_late)
    assert resolver.resolve(SYNTHETIC, None).folder.exists()


def edit(folder, change):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "train_items.npy").unlink(), r"train_items\.npy is missing: run `ncf prep"),
        (
            lambda f: (f / "train_items.npy").write_bytes(b"\0" * 30),
            r"train_items\.npy is cut short \(30 of at least 40 bytes\): run `ncf prepare`",
        ),
        (lambda f: (f / "manifest.json").write_text("{"), r"manifest\.json: not JSON .*: run `ncf"),
        (lambda f: (f / "manifest.json").unlink(), r"manifest\.json: No such file.*: run `ncf"),
        (lambda f: edit(f, lambda m: m.pop("hash")), r"manifest\.json lacks 'hash': run `ncf"),
        (lambda f: edit(f, lambda m: m.update(candidates=None)), r"manifest\.json lacks "),
        (lambda f: edit(f, lambda m: m.update(arrays=[])), r"manifest\.json lacks "),
    ],
)
def test_a_damaged_folder_names_the_damage_and_the_way_out(damage, message, tmp_path):
    write_data(tmp_path / "mine")
    damage(tmp_path / "mine")
    with pytest.raises(UserError, match=message) as caught:
        read_prepared(tmp_path / "mine")
    assert "\n" not in str(caught.value)


def test_a_raw_folder_is_named_by_the_files_in_it(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "ratings.csv").write_text("x")
    first = content_hash(raw)
    assert content_hash(raw) == first
    (raw / "more.csv").write_text("y")
    assert content_hash(raw) != first


def test_the_real_trainer_makes_data_that_bench_can_read(tmp_path, said):
    resolver = Resolver(tmp_path / "data", Stop(), said.append)
    made = resolver.resolve(make_suite(data=DataSpec(synthetic="tiny")), None)
    assert made.identity.hash
    assert made.identity.candidates_hash
