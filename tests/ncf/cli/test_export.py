"""The exported SavedModel, served by a process that cannot import our code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from paths import ROOT
from served_model import ids_of, scores_of
from toy import import_tensorflow

from ncf.__main__ import main

tf = import_tensorflow()

pytestmark = pytest.mark.tf
DOCS = ROOT / "docs" / "serving.md"


@pytest.fixture(scope="module")
def served(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("export") / "served"
    checkpoint = str(trained[0] / "ck")
    assert main(["export", "--checkpoint", checkpoint, "--output", str(folder)]) == 0
    return folder


def test_scores_of_the_saved_model_are_the_trainers(trained, served) -> None:
    _, data, made = trained
    score = tf.saved_model.load(str(served)).signatures["score"]
    for user in (0, 17, 59):
        ids = tf.constant(ids_of(data, range(data.n_items)))
        users = tf.fill([data.n_items], data.user_id(user))
        found = score(user_ids=users, item_ids=ids)["scores"].numpy()
        np.testing.assert_allclose(found, scores_of(made, user, data.n_items), atol=1e-5)


def test_recommend_is_the_top_k_of_brute_force_for_every_user(trained, served) -> None:
    _, data, made = trained
    recommend = tf.saved_model.load(str(served)).signatures["recommend"]
    users = tf.constant([data.user_id(user) for user in range(data.n_users)])
    for k in (1, 10, data.n_items):
        found = recommend(user_ids=users, k=tf.constant(k))["item_ids"].numpy()
        for user, items in enumerate(found):
            order = np.argsort(-scores_of(made, user, data.n_items), kind="stable")[:k]
            assert [item.decode() for item in items] == ids_of(data, order)


def test_exported_training_items_are_left_out_and_empty_places_say_so(
    trained,
    tmp_path,
) -> None:
    folder, data, _ = trained
    target = str(tmp_path / "unseen")
    words = ["--checkpoint", str(folder / "ck"), "--output", target, "--exclude_seen"]
    assert main(["export", *words]) == 0
    recommend = tf.saved_model.load(target).signatures["recommend"]
    found = recommend(user_ids=tf.constant([data.user_id(3)]), k=tf.constant(40))
    names = [item.decode() for item in found["item_ids"].numpy()[0]]
    seen = data.train_items[data.train_offsets[3] : data.train_offsets[4]]
    assert set(ids_of(data, seen)).isdisjoint(names)
    assert names[-len(seen) :] == [""] * len(seen)
    assert np.isneginf(found["scores"].numpy()[0, -len(seen) :]).all()
    assert np.isfinite(found["scores"].numpy()[0, : -len(seen)]).all()


def test_an_unknown_id_is_named_by_the_served_model(served) -> None:
    model = tf.saved_model.load(str(served))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"unknown user:.*nobody"):
        model.signatures["recommend"](user_ids=tf.constant(["nobody"]), k=tf.constant(1))


def test_the_example_of_the_documentation_runs_where_our_code_is_not(served, tmp_path) -> None:
    example = DOCS.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    blocked = tmp_path / "ncf"
    blocked.mkdir()
    (blocked / "__init__.py").write_text("raise ImportError('not here')\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=served.parent,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, one, two = done.stdout.strip().splitlines()
    assert len(first.strip("[]").split()) == 2
    assert (one.split()[0], two.split()[0]) == ("1", "2")
    assert len(json.loads(one.partition(" ")[2].replace("'", '"'))) == 5


def test_a_folder_that_is_something_else_is_never_replaced(trained, tmp_path, capsys) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    words = ["--checkpoint", str(trained[0] / "ck"), "--output", str(tmp_path / "mine"), "--force"]
    assert main(["export", *words]) == 2
    assert "is not a SavedModel" in capsys.readouterr().err
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"


def test_a_saved_model_is_replaced_only_by_force(trained, served, capsys) -> None:
    words = ["--checkpoint", str(trained[0] / "ck"), "--output", str(served)]
    assert main(["export", *words]) == 2
    assert "--force replaces it" in capsys.readouterr().err
    assert main(["export", *words, "--force"]) == 0
    assert (served / "saved_model.pb").is_file()


def test_a_replacement_that_fails_leaves_the_old_model_in_its_place(
    trained,
    served,
    monkeypatch,
    capsys,
) -> None:
    rename = Path.rename

    def full(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    words = ["--checkpoint", str(trained[0] / "ck"), "--output", str(served), "--force"]
    assert main(["export", *words]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert (served / "saved_model.pb").is_file()
    assert [path.name for path in served.parent.iterdir()] == [served.name]
