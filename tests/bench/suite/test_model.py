from __future__ import annotations

import pytest

from bench.analysis.labels import machine_text
from bench.errors import UserError
from bench.host.gpus import Gpu
from bench.host.machine import Host, why_not
from bench.records.identity import Machine
from bench.suite.model import HostList

A100 = Gpu("NVIDIA A100", "GPU-1", 40 << 30, (8, 0))


def test_a_host_list_is_read_and_written_as_the_launchers_take_it():
    found = HostList.parse(" node-1:8, 10.0.0.2:4 ", "--hosts")
    assert str(found) == "node-1:8,10.0.0.2:4"
    assert (found.total, found.shape) == (12, "8+4")


@pytest.mark.parametrize(
    "text", ["a", "a:", "a:0", "a:x", ":4", "", "a:1,,b:1", "a b:2", "-rf:1", "a:1;b:1", "a:-1"]
)
def test_what_is_no_host_list_is_said_with_the_way_out(text):
    with pytest.raises(UserError, match=r"--hosts: .* write hosts like a:8,b:8"):
        HostList.parse(text, "--hosts")


def test_a_host_that_is_listed_twice_is_a_mistake():
    with pytest.raises(UserError, match="a is listed twice"):
        HostList.parse("a:1,a:2", "--hosts")


@pytest.mark.parametrize(("ranks", "most"), [(1, 1), (2, 2), (3, 2), (5, 3), (9, 3)])
def test_hosts_are_filled_in_their_order(ranks, most):
    assert HostList.parse("a:2,b:3", "--hosts").most_on_one(ranks) == most


def test_the_hosts_slots_count_and_not_the_gpus_of_this_machine():
    here = Host("cpu", 2, None, gpus=(A100,), horovodrun="/h")
    two = HostList.parse("a:2,b:2", "--hosts")
    assert why_not(here, 4, "fp32") == "4 ranks, 1 GPU"
    assert why_not(here, 4, "fp32", two) is None
    assert why_not(here, 5, "fp32", two) == "5 ranks, 4 slots on the hosts a:2,b:2"
    assert why_not(Host("cpu", 2, None, no_horovod="gone"), 2, "fp32", two) == (
        "2 ranks need Horovod: gone"
    )


def test_multi_host_runs_are_not_pooled_with_single_host_runs():
    alone, spread = Host("cpu", 2, None), Host("cpu", 2, None, slots="8+8", mpirun="/usr/bin/x")
    assert Machine.of(alone.to_dict()) != Machine.of(spread.to_dict())
    assert machine_text(Machine.of(spread.to_dict())).endswith(", the first of 2 hosts (8+8 ranks)")
    assert "slots" not in alone.to_dict(), "records of one host stay as they were"
    assert "/usr/bin/x" not in str(spread.to_dict())
