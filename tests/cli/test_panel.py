"""The live panel: what it says, on a pseudo-terminal; that it leaves nothing behind, also after Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.selection import first
from tests.terminal import Screen, Terminal
from vgi_cli.cli import panel
from vgi_cli.cli.app import main
from vgi_cli.cli.console import Console, standing
from vgi_cli.reporting import Progress

QUICK = "--model fa --method vgi --threads 1 --set model.factors=1 --set bootstrap=none --set method.imputations=2"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    made = Terminal()
    yield made
    if not made.stream.closed:
        made.close()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(200, 3))
    rows = [",".join("" if i % 5 == j else f"{v:.3f}" for j, v in enumerate(row)) for i, row in enumerate(x)]
    Path("t.csv").write_text("a,b,c\n" + "\n".join(rows) + "\n")
    return Path("t.csv")


def at(epoch: int, score: float | None = None, **more: object) -> Progress:
    first = Progress(2, 4, "training", epoch / 10, epoch, 10, "epochs", 0.5, 20.0, epoch=epoch)
    scored = {} if score is None else {"score": score, "score_epoch": epoch, "score_name": "val_loglik"}
    return first._replace(**scored | more)


def scored(*scores: float) -> panel.Scores:
    found = panel.Scores()
    for epoch, score in enumerate(scores, 1):
        found.add(at(epoch, score))
    return found


def test_what_the_panel_says() -> None:
    now = at(4, -3.5, acceptance=0.814, rows_per_second=12345.6, gpu_bytes=1_230_000_000, note="objective 3.2")
    scores = scored(-5.0, -3.25, -4.0, -3.5)
    assert panel.lines(now, scores) == [
        "2/4 training  ━━━━━━━━━━──────────────  40%  20 s left",
        "    4 of 10 epochs, 0.5 epochs/s, 12,346 rows/s",
        "    held-out log-likelihood -3.5 (best -3.25 at epoch 2)  ▁█▅▇",
        "    acceptance 81%, GPU memory 1.23 GB",
    ]
    assert panel.lines(now, scores, notes=True)[3].endswith("1.23 GB, objective 3.2")
    plain = panel.lines(now, scores, unicode=False)
    assert all(line.isascii() for line in plain) and "##########----" in plain[0] and plain[2].endswith("  _#=*")
    assert panel.lines(Progress(1, 1, "reading the table", 1.0), panel.Scores()) == [
        "1/1 reading the table  ━━━━━━━━━━━━━━━━━━━━━━━━ 100%"
    ]


def test_time_that_ran_out_before_the_work_is_not_known() -> None:
    told = Progress(1, 2, "reading the table", 0.4, left=3.0)
    assert panel.since(told, 1.0).left == 2.0
    assert panel.since(told, 2.7).left is None and panel.since(told, 30.0).left is None
    assert panel.since(told._replace(left=None), 1.0).left is None
    assert standing(panel.since(told, 1.0)) == "40%, 2 s left" and standing(panel.since(told, 3.0)) == "40%"


@pytest.mark.parametrize(
    ("values", "curve"),
    [
        ([], ""),
        ([1.0], "▁"),
        ([2.0, 2.0], "▁▁"),
        ([0.0, 7.0], "▁█"),
        (list(range(8)), "▁▂▃▄▅▆▇█"),
        ([float("-inf"), 0.0, 1.0], "▁█"),
        (list(range(80)), "▁▂▃▄▅▆▇█"),
    ],
)
def test_a_curve_of_scores(values: list[float], curve: str) -> None:
    assert panel.sparkline(values, width=8) == curve


def test_scores_of_epochs_that_were_not_scored_are_not_repeated() -> None:
    scores = scored(-5.0, -4.0)
    scores.add(at(3))
    scores.add(at(4, -4.0, score_epoch=2))
    assert scores.seen == {1: -5.0, 2: -4.0}


def test_a_line_that_is_said_stays_above_the_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    console = Console(stream=terminal.stream)
    console.show(at(1, -2.0))
    wait_for(terminal, "held-out")
    console.say("a line [with] brackets")
    console.warn("a warning")
    console.show(at(5, -1.0))
    wait_for(terminal, " 50%")
    console.close()
    screen = terminal.close()
    assert screen.shown() == ["a line [with] brackets", "warning: a warning"]
    assert screen.cursor and screen.unknown == set() and screen.coloured


@pytest.mark.parametrize("never", first(1, [["NO_COLOR"], ["--color", "never"]]))
def test_without_colour_the_panel_is_there(monkeypatch: pytest.MonkeyPatch, never: list[str]) -> None:
    monkeypatch.setenv("TERM", "xterm")
    if never == ["NO_COLOR"]:
        monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    console = Console(stream=terminal.stream, colour="auto" if never == ["NO_COLOR"] else "never")
    console.show(at(1))
    wait_for(terminal, "2/4 training")
    console.warn("a warning")
    console.close()
    screen = terminal.close()
    assert screen.shown() == ["warning: a warning"] and not screen.coloured and screen.cursor


def test_in_a_window_of_another_size_the_panel_is_drawn_anew(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the terminal broke the lines of the old panel: none of them stays, and no new one is too long."""
    monkeypatch.setattr(panel, "BEAT", 0.02)
    console = Console(stream=terminal.stream)
    console.warn("said before, in a line that is longer than the window will be")
    now = at(5, -1.0, acceptance=0.5, rows_per_second=1e4)
    for columns, rows in ((30, 30), (20, 30), (90, 30), (90, 2)):
        console.show(now)
        wait_for(terminal, "\x1b[3A")
        drawn = terminal.written.count(b"2/4 training")
        terminal.resize(columns, rows)
        deadline = time.monotonic() + 20.0
        while terminal.written.count(b"2/4 training") == drawn:
            assert time.monotonic() < deadline, "not drawn anew"
            time.sleep(0.01)
        time.sleep(0.05)
        screen = terminal.screen()
        assert screen.longest < columns
        assert [line.split()[0] for line in screen.shown()] == ["warning:", "2/4", "5", "held-out", "acceptance"][
            : rows + 1
        ]
    console.close()
    assert [line.split()[0] for line in terminal.close().shown()] == ["warning:"]


def test_what_is_over_at_once_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    console = Console(stream=terminal.stream)
    with console.stage("reading"):
        pass
    console.close()
    terminal.close()
    assert terminal.written == b""


def wait_for(terminal: Terminal, text: str, seconds: float = 20.0) -> None:
    """Until the terminal has got it."""
    deadline = time.monotonic() + seconds
    while text.encode() not in terminal.written:
        assert time.monotonic() < deadline, terminal.written
        time.sleep(0.02)


def test_a_fit_on_a_terminal_leaves_its_lines_and_nothing_else(
    terminal: Terminal, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)
    update = panel.Panel.update

    def drawn(shown: panel.Panel, progress: Progress) -> None:
        """A fit so short may be over before the first beat: it waits for its numbers to be drawn."""
        update(shown, progress)
        if progress.score is not None and progress.rows_per_second is not None:
            wait_for(terminal, "rows/s")
            wait_for(terminal, "held-out log-likelihood")

    monkeypatch.setattr(panel.Panel, "update", drawn)
    assert main(["fit", "t.csv", *QUICK.split(), "--val", "0.2", "--epochs", "6", "--out", "run"]) == 0
    screen = terminal.close()
    assert capsys.readouterr().out == "run\n"
    written = terminal.written.decode()
    assert "training" in written and "held-out log-likelihood" in written and "rows/s" in written
    assert clean(screen) and any(line.startswith("kept: epoch") for line in screen.shown())


def test_ctrl_c_leaves_the_terminal_as_it_was(terminal: Terminal, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal.stream)

    def interrupt() -> None:
        wait_for(terminal, "acceptance")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    assert main(["fit", "t.csv", *QUICK.split(), "--epochs", "100000", "--out", "run"]) == 130
    screen = terminal.close()
    assert clean(screen) and any("saved in run, by SIGINT" in line for line in screen.shown())


def clean(screen: Screen) -> bool:
    """Whether the cursor is to be seen and no part of a panel is."""
    left = [line for line in screen.shown() if "━" in line or "epochs/s" in line or "rows/s" in line]
    return screen.cursor and screen.unknown == set() and left == []


def test_drawing_costs_less_than_a_hundredth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    drawn = panel.Panel(terminal.stream, True, False, time.monotonic)
    scores = [at(epoch, float(epoch), acceptance=0.5, rows_per_second=1e4) for epoch in range(60)]
    for progress in scores:
        drawn.update(progress)
    wait_for(terminal, "2/4 training")
    before = time.process_time()
    for progress in scores:
        drawn.update(progress._replace(stage=3))
        drawn.draw()
    taken = (time.process_time() - before) / len(scores)
    drawn.close()
    terminal.close()
    assert taken < 0.01 * panel.BEAT, taken
