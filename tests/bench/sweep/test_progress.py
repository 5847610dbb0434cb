"""What a sweep says while it runs: a line per start and end, live lines on a terminal."""

from __future__ import annotations

import io

from sweep_world import a_world  # noqa: F401 - a fixture

from bench.sweep.progress import View


def test_a_line_per_start_and_end_with_figures_and_time_left(world):
    world.go()
    lines = world.out.getvalue().splitlines()
    assert len(lines) == 24
    assert lines[0].startswith("[ 1/12] ranks=")
    assert lines[1].startswith(
        lines[0] + ": 150,000 samples/s, best HR@10 0.6500, 3.0 s; about 33 s l"
    )
    assert lines[-1].endswith("best HR@10 0.6500, 3.0 s")


def test_epochs_are_echoed_to_a_file_only_now_and_then():
    err = io.StringIO()
    now = [0.0]
    view = View(io.StringIO(), err, lambda: now[0])
    with view.running() as on_line:
        for second in range(60):
            now[0] = float(second)
            on_line(f"[0]<stdout>:epoch {second}/60  loss 0.2")
            on_line("something else")
    assert err.getvalue().splitlines() == [f"    epoch {n}/60  loss 0.2" for n in range(10, 60, 10)]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_several_runs_have_a_line_each_and_the_sweep_one_below(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    err = Terminal()
    view = View(io.StringIO(), err)
    view.progress("3 of 12 runs done, 1 failed, 2 cells to go; about 2 min left")
    with view.running("[4/12] fp32 seed 1") as first, view.running("[5/12] amp seed 1") as second:
        first("epoch 1/20  loss 0.3  HR@10 0.5000  100,000 samples/s")
        second("epoch 2/20  loss 0.2  HR@10 0.6000  250,000 samples/s")
        drawn = err.getvalue().rpartition("[4/12]")[2]
        assert "HR@10 0.5000 100,000 samples/s" in drawn
        assert "[5/12] amp seed 1: epoch 2/20 loss 0.2 HR@10 0.6000 250,000 samples/s" in drawn
        assert drawn.index("[5/12]") < drawn.index("3 of 12 runs done, 1 failed")
    assert view._live is None, "the lines are gone with the last run"


def test_what_is_said_meanwhile_stays_above_the_live_lines(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    view = View(terminal, terminal)
    with view.running("[1/2] a"), view.running("[2/2] b"):
        view.say("[1/2] a: [bold]as it is[/bold]")
    assert "[1/2] a: [bold]as it is[/bold]" in terminal.getvalue()


def test_a_redirected_output_gets_its_lines_and_the_terminal_the_live_ones(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out, err = io.StringIO(), Terminal()
    view = View(out, err)
    with view.running("[1/1] a") as on_line:
        view.say("said")
        on_line("epoch 1/2")
    assert out.getvalue() == "said\n"
    assert "epoch 1/2" in err.getvalue()


def test_epochs_are_live_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    err = Terminal()
    with View(io.StringIO(), err).running() as on_line:
        on_line("epoch 3/20  loss 0.2134  HR@10 0.6123")
        on_line("something else")
    assert "epoch 3/20 loss 0.2134 HR@10 0.6123" in err.getvalue()
    assert "something else" not in err.getvalue()
