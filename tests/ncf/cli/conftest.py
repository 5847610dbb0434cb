"""The commands that use a model share one."""

from __future__ import annotations

import numpy as np
import pytest
from toy import toy_folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A data folder and a checkpoint of it; ids are the numbers from 1."""
    from ncf.model import neumf
    from ncf.training import checkpoint

    folder = tmp_path_factory.mktemp("served")
    data = toy_folder(folder / "toy")
    made = neumf.create(data.n_users, data.n_items, 8, (32, 16, 8), 1)
    rng = np.random.default_rng(4)
    for variable in made.flat():
        variable.assign(rng.normal(scale=0.4, size=variable.shape).astype(np.float32))
    meta = {
        "epoch": 2,
        "data_folder": str(folder / "toy"),
        **checkpoint.identity_of(data).to_dict(),
        "config": {"factors": 8, "layers": [32, 16, 8]},
    }
    values = [variable.numpy() for variable in made.flat()]
    checkpoint.save(folder / "ck" / "best.npz", made.names(), values, meta)
    return folder, data, made
