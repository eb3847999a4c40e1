"""Every phase of every command tells how far it is: from 0 to 1, never backwards, in words every ten seconds."""

from __future__ import annotations

import io
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from vgi_cli.cli.console import Console
from vgi_cli.commands.requests import FitRequest
from vgi_cli.evaluation.likelihood.loglik import LogLik
from vgi_cli.fitting import plateau
from vgi_cli.methods.em.em import Nearness
from vgi_cli.reporting import Lines, Progress, Silent, Stage
from vgi_cli.settings.gather import gather

FLOW = {"method.imputations": 2, "optim.batch_size": 16, "model.steps": 2, "model.hidden": 8, "model.blocks": 0}
QUICK = {**FLOW, "optim.warmup_conditionals": 1, "optim.warmup_model": 1}


def frame(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.normal(size=rows)
    frame = pd.DataFrame({"a": z, "b": z + 0.5 * rng.normal(size=rows), "c": np.round(rng.normal(size=rows), 1)})
    return frame.mask(rng.random(frame.shape) < 0.15)


def stages(seen: list[Progress]) -> dict[str, list[Progress]]:
    """The reports of each stage; each goes from 0 to 1 and never back, and stages are numbered as they come."""
    groups = {name: list(group) for name, group in itertools.groupby(seen, key=lambda p: p.name)}
    for number, reports in enumerate(groups.values(), 1):
        shares = [p.share for p in reports]
        assert shares[0] == 0.0 and shares[-1] == 1.0 and shares == sorted(shares)
        assert {p.stage for p in reports} == {number} and all(p.stage <= p.stages for p in reports)
    last = seen[-1]
    assert last.stage == last.stages == len(groups)
    return groups


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> vgi_cli.Run:
    path = tmp_path_factory.mktemp("flow") / "run"
    return vgi_cli.fit(frame(), model="flow", set=QUICK, epochs=2, out=path, threads=1)


@pytest.mark.full_fits("fitting.refits.COUNT")
def test_the_stages_of_a_fit_by_em(tmp_path: Path) -> None:
    seen: list[Progress] = []
    vgi_cli.fit(frame(), model="mixture", out=tmp_path / "run", threads=1, progress=seen.append)
    found = stages(seen)
    assert list(found) == [
        "reading the table",
        "choosing the size of the model",
        "training",
        "refitting to resampled rows",
        "saving",
    ]
    assert all(len(found[name]) > 4 for name in list(found)[:4])
    assert {p.unit for p in found["training"][1:-1]} == {"iterations"}
    assert found["refitting to resampled rows"][-2].done == 20
    known = [p for p in seen if p.name != "reading the table"]
    assert {p.stages for p in known} == {5}  # how many there are is known once the table is


def test_the_stages_of_a_fit_of_a_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = itertools.count(0.0, -1.0)  # ever worse
    result = LogLik(torch.zeros(1), "exact")
    monkeypatch.setattr(
        plateau, "observed_log_prob", lambda *_, **__: result._replace(values=torch.tensor(next(scores)))
    )
    monkeypatch.setattr(plateau, "LEAST", 0)  # patience counts from the first step
    seen: list[Progress] = []
    set = {**QUICK, "model.steps": 1, "bootstrap": 2}
    vgi_cli.fit(frame(), model="flow", set=set, out=tmp_path / "run", threads=1, progress=seen.append)
    found = stages(seen)
    assert list(found) == ["reading the table", "training", "refitting to resampled rows", "saving"]
    training = found["training"]
    assert any("held_out_loglik" in p.note for p in training)
    last = training[-2]
    assert last.score_name == "held_out_loglik" and last.score is not None and (last.score_epoch or 0) <= last.epoch
    assert 0 < last.acceptance <= 1 and last.rows_per_second > 0 and last.gpu_bytes is None
    assert all(p.score is None for name in found for p in found[name] if name != "training")
    assert {p.unit for p in training[1:-1]} == {"epochs"} and any("objective" in p.note for p in training)
    inside = {p.share for p in training} - {0.0, 1.0}
    assert len(inside) > 3 and all(p.left is None or p.left >= 0 for p in training)


def test_imputations_before_a_fit_are_its_first_half(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    seen: list[Progress] = []
    options: dict[str, Any] = {"imputer": "mice", "epochs": 2, "set": {"method.imputations": 2, "model.factors": 1}}
    vgi_cli.fit(frame(), model="fa", out=tmp_path / "run", threads=1, progress=seen.append, **options)
    training = stages(seen)["training"]
    filling = [p for p in training if p.unit == "imputations"]
    assert len({p.share for p in filling}) > 10 and max(p.share for p in filling) <= 0.5
    assert all(p.share >= 0.5 for p in training if p.unit == "epochs")


def test_the_stages_of_impute(flow: vgi_cli.Run, tmp_path: Path) -> None:
    seen: list[Progress] = []
    flow.impute(m=2, progress=seen.append)
    assert list(stages(seen)) == ["reading the table", "filling the holes"]
    assert len({p.share for p in seen if p.name == "filling the holes"}) > 3  # on the way through a pack of chains
    seen.clear()
    frame().to_csv(tmp_path / "t.csv", index=False)
    vgi_cli.impute(flow, tmp_path / "t.csv", m=3, out=tmp_path / "out.csv", progress=seen.append)
    found = stages(seen)
    assert list(found) == ["reading the table", "filling the holes", "writing the tables"]
    assert found["filling the holes"][-2].done == found["filling the holes"][-2].total
    assert [p.share for p in found["writing the tables"][1:4]] == pytest.approx([1 / 3, 2 / 3, 1])


def test_the_stages_of_finetune(flow: vgi_cli.Run, tmp_path: Path) -> None:
    seen: list[Progress] = []
    flow.finetune(frame(30), epochs=2, out=tmp_path / "tuned", progress=seen.append)
    found = stages(seen)
    assert list(found) == ["reading the table", "training", "saving"] and len(found["training"]) > 4


def test_the_stages_of_evaluate(flow: vgi_cli.Run) -> None:
    seen: list[Progress] = []
    full = frame(16).fillna(0.5)
    flow.evaluate(frame(16), truth=full, conditionals=True, objective=True, progress=seen.append)
    found = stages(seen)
    assert list(found) == [
        "reading the table",
        "preparing the rows",
        "scoring the rows",
        "filling hidden cells to compare",
        "comparing the conditionals",
        "tuning the conditionals",
    ]
    assert len(found["preparing the rows"]) > 8  # one report a draw that spreads the rounded column
    for name in list(found)[2:]:
        assert len({p.share for p in found[name]}) > 3, name


def test_the_encoder_of_a_vae_is_tuned_in_a_stage_of_its_own(tmp_path: Path) -> None:
    set = {"model.latents": 1, "optim.batch_size": 32}
    run = vgi_cli.fit(frame(), model="vae", method="mvae", set=set, epochs=1, out=tmp_path / "run", threads=1)
    seen: list[Progress] = []
    run.evaluate(frame(), samples=16, refit_epochs=3, progress=seen.append)
    tuning = stages(seen)["tuning the encoder to the rows"]
    assert [p.share for p in tuning] == pytest.approx([0, 1 / 3, 2 / 3, 1, 1])


class Ticking(Console):
    """A console whose clock is a second later with every report."""

    def __init__(self, stream: io.StringIO) -> None:
        self.now = 0.0
        super().__init__(stream=stream, clock=lambda: self.now)

    def show(self, progress: Progress) -> None:
        self.now += 1.0
        super().show(progress)


@pytest.mark.full_fits("fitting.refits.COUNT")
def test_every_phase_has_one_plain_line_every_ten_seconds(tmp_path: Path) -> None:
    frame(40).to_csv(tmp_path / "t.csv", index=False)
    stream = io.StringIO()
    reporter = Ticking(stream)
    flags = {"data": ([str(tmp_path / "t.csv")], "DATA"), "model.name": ("mixture", "--model")}
    FitRequest(settings=gather(flags), out=str(tmp_path / "run")).carry_out(reporter)
    lines = [line for line in stream.getvalue().splitlines() if re.match(r"\d/\d ", line)]
    assert len(lines) == reporter.now // 10
    assert {line.split(":")[0] for line in lines} >= {
        "2/5 choosing the size of the model",
        "4/5 refitting to resampled rows",
    }
    assert all(re.fullmatch(r"\d/5 [a-z -]+: \d+%(, .*)?", line) for line in lines)


def test_a_stage_never_goes_backwards_and_estimates_the_time_left() -> None:
    seen: list[Progress] = []
    now = [0.0]
    stage = Stage(seen.append, lambda: (1, 1), "training", "epochs", None, lambda: now[0])
    for time, share in ((0.0, 0.0), (10.0, 0.5), (20.0, 0.25), (30.0, 7.0)):
        now[0] = time
        stage(share, 2 * time, 40)
    assert [p.share for p in seen] == [0.0, 0.5, 0.5, 1.0]
    assert [p.left for p in seen] == [None, 10.0, 20.0, 0.0]
    assert [p.rate for p in seen] == [None, 2.0, 2.0, 2.0]


def test_no_time_left_is_told_before_there_is_enough_to_go_by() -> None:
    seen: list[Progress] = []
    now = [0.0]
    stage = Stage(seen.append, lambda: (1, 1), "training", "epochs", None, lambda: now[0])
    for now[0], share in ((0.0, 0.0), (1.0, 0.5), (1.9, 0.9), (2.0, 0.9)):
        stage(share)
    assert [p.left for p in seen] == [None, None, None, pytest.approx(2.0 / 9)]
    seen.clear()
    now[0] = 0.0
    stage = Stage(seen.append, lambda: (1, 1), "training", "epochs", None, lambda: now[0])
    for now[0], share in ((0.0, 0.5), (3.0, 0.502), (10.0, 0.54), (11.0, 0.55)):
        stage(share)
    assert [p.left for p in seen] == [None, None, None, pytest.approx(99.0)]


def test_a_far_limit_is_no_time_left_but_of_a_long_stage() -> None:
    seen: list[Progress] = []
    now = [0.0]
    stage = Stage(seen.append, lambda: (1, 1), "training", "epochs", 1400.0, lambda: now[0])
    for now[0], share in ((0.0, 0.0), (1.0, 0.01), (4.0, 0.02), (8.0, 0.1), (10.0, 0.5)):
        stage(share)
    assert [p.left for p in seen] == [None, None, None, pytest.approx(72.0), pytest.approx(10.0)]
    seen.clear()
    now[0] = 0.0
    stage = Stage(seen.append, lambda: (1, 1), "training", "epochs", 1400.0, lambda: now[0])
    for now[0], share in ((0.0, 0.0), (29.0, 0.0), (30.0, 0.0), (40.0, 0.04)):
        stage(share)
    assert [p.left for p in seen] == [None, None, 1370.0, pytest.approx(960.0)]


def test_the_time_left_is_no_more_than_the_time_limit_has() -> None:
    seen: list[Progress] = []
    now = [0.0]
    stage = Stage(seen.append, lambda: (1, 1), "training", "epochs", 12.0, lambda: now[0])
    for now[0], share in ((0.0, 0.0), (10.0, 0.1), (13.0, 0.2)):
        stage(share)
    assert [p.left for p in seen] == [12.0, 2.0, 0.0]


def test_a_resumed_stage_counts_the_time_from_where_it_began() -> None:
    seen: list[Progress] = []
    now = [0.0]
    stage = Stage(seen.append, lambda: (1, 1), "training", "epochs", None, lambda: now[0])
    for now[0], share in ((0.0, 0.6), (10.0, 0.8)):
        stage(share, 100 * share)
    assert seen[-1].left == pytest.approx(10.0) and seen[-1].rate == pytest.approx(2.0)


def test_stages_that_were_left_out_and_stages_that_nobody_planned() -> None:
    seen: list[Progress] = []
    reporter = Lines(progress=seen.append)
    reporter.plan(["a", "b", "c", "d"])
    for name in ("a", "c", "x", "d"):
        with reporter.stage(name):
            pass
    assert [(p.name, p.stage, p.stages) for p in seen[::2]] == [("a", 1, 4), ("c", 2, 3), ("x", 3, 4), ("d", 4, 4)]


def test_a_stage_that_fails_does_not_say_that_it_is_done() -> None:
    seen: list[Progress] = []
    reporter = Lines(progress=seen.append)
    with pytest.raises(ZeroDivisionError), reporter.stage("a"):
        raise ZeroDivisionError
    assert [p.share for p in seen] == [0.0]


def test_silence_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    silent = Silent()
    with silent.stage("a") as stage:
        stage(0.5)
    silent.say("a line")
    silent.warn("a warning")
    silent.detail("a detail")
    assert capsys.readouterr() == ("", "")


def test_em_is_as_far_as_its_gains_have_fallen() -> None:
    near = Nearness(1e-6)
    shares = []
    for gain in (float("inf"), 1e-2, 1e-3, 1e-4, 2e-4, 1e-6):
        near.add(gain)
        shares.append(near.share)
    assert shares == pytest.approx([0, 0, 0.25, 0.5, 0.5, 1])
