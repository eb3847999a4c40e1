"""A time limit is the wall time of the whole command, is used, and leaves a usable model or says that there is none.

No test looks at the machine's clock: time passes because somebody looks at it (tests/clocks.py).
"""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from tests.clocks import Ticking, ticking
from tests.fitting.fakes import METHOD, FakeState, new_drive, new_run
from tests.program import Vgi, vgi
from tests.resamples import refits
from tests.tensors import same_tensors
from vgi_cli.commands.evaluate import command as evaluate
from vgi_cli.commands.evaluate import likelihood
from vgi_cli.completers.base import GivenUp, never
from vgi_cli.data import make_table
from vgi_cli.errors import Interrupted, UsageError
from vgi_cli.evaluation.likelihood.ladder import Budget
from vgi_cli.fast import numba_version
from vgi_cli.fitting import pace, plateau
from vgi_cli.fitting import refits as bootstrap
from vgi_cli.fitting.driver import Drive, Validator
from vgi_cli.fitting.rows import Rows
from vgi_cli.layout import Layout
from vgi_cli.machine.work import OutOfTime, TimeLimit, TimeUp, Work, giving_up
from vgi_cli.maths import compiled
from vgi_cli.methods.base import Events, State, StepEnd
from vgi_cli.methods.em.bootstrap import Refit, Sampled
from vgi_cli.methods.em.em import EmConfig
from vgi_cli.methods.em.sizing import ComparedRows, choose_size
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.reporting import Lines
from vgi_cli.runs.folder import RunFolder
from vgi_cli.settings.recipe import MethodChoice, ModelChoice, Recipe

__all__ = ["vgi"]

FLOW = {
    "method.imputations": 2,
    "optim.batch_size": 16,
    "model.steps": 1,
    "model.hidden": 4,
    "model.blocks": 0,
    "optim.warmup_conditionals": 1,
    "optim.warmup_model": 1,
}


def frame(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    z = rng.normal(size=rows)
    frame = pd.DataFrame({"a": z, "b": z + 0.5 * rng.normal(size=rows), "c": rng.normal(size=rows)})
    return frame.mask(rng.random(frame.shape) < 0.15)


def table(rows: int = 60) -> Any:
    x = torch.tensor(frame(rows).to_numpy())
    return make_table(x.nan_to_num(0.0), x.isnan())


def after(count: int) -> Callable[..., bool]:
    """A `stop` that is true from its (count + 1)-th question on."""
    asked = iter(range(count))
    return lambda *_: next(asked, None) is None


# --- the limit itself ---


def test_a_limit_counts_from_the_start_and_keeps_some_time_for_what_comes_last() -> None:
    now = [100.0]
    limit = TimeLimit(60.0, started=90.0, clock=lambda: now[0])
    assert limit and limit.end == 147.0 and limit.left == 47.0 and not limit.over()  # 3 of 60 seconds are kept
    assert limit.until(0.5) == 123.5 and not limit.passed(123.5)
    now[0] = 147.0
    assert limit.over() and limit.passed(123.5) and limit.until(0.5) == 147.0
    limit.cut.append("training")
    assert limit.record() == {"seconds": 60.0, "ended_early": ["training"]}
    assert (
        TimeLimit(2.0, 0.0).end == pytest.approx(1.2)
        and TimeLimit(1.0, 0.0).end == 0.5
        and TimeLimit(3600.0, 0.0).end == 3597.0
    )


def test_without_a_limit_time_is_never_over() -> None:
    limit = TimeLimit()
    assert not limit and limit.end is None and limit.until(0.5) is None
    assert not limit.over() and not limit.passed(limit.end) and limit.left == math.inf and limit.record() is None


def test_work_that_tells_its_progress_can_be_given_up() -> None:
    told: list[float] = []
    work = giving_up(after(2), told.append)
    work(0.1)
    work(0.2)
    with pytest.raises(OutOfTime):
        work(0.3)
    assert told == [0.1, 0.2]


# --- the size ---


def size(stop: Callable[[], bool], told: list[float] | None = None) -> Any:
    progress = (lambda share: None) if told is None else told.append
    generator = torch.Generator().manual_seed(0)
    return choose_size(
        GaussianMixture, MixtureConfig(), ComparedRows(table(90), generator), EmConfig(), stop=stop, progress=progress
    )


@pytest.mark.full_fits("methods.em.sizing.EPOCHS")
def test_a_search_that_is_ended_takes_the_best_that_was_tried() -> None:
    whole = size(lambda: False)
    assert not whole.cut and "time limit" not in whole.reason
    cut = size(after(20))
    assert cut.cut and 0 < len(cut.tried) < len(whole.tried)
    assert cut.tried == whole.tried[: len(cut.tried)]  # the same scores, as far as it came
    assert cut.config in [t.config for t in cut.tried]
    assert cut.reason.endswith("; the time limit ended the search, with more time another number may be chosen")


def test_a_search_without_time_takes_the_smallest() -> None:
    cut = size(after(0))
    assert cut.cut and cut.tried == () and cut.config.components == 1
    assert cut.reason == "1 cluster: no time was left to try more"


@pytest.mark.full_fits("methods.em.sizing.EPOCHS")
def test_the_share_of_a_search_is_that_of_its_counted_work() -> None:
    told: list[float] = []
    size(lambda: False, told)
    assert told[0] == 0.0 and 0.2 < max(told) <= 1.0 and len(set(told)) > 20
    assert told == sorted(told)


# --- refits ---


def mixture() -> GaussianMixture:
    model = GaussianMixture.build(MixtureConfig(components=1, covariance="full"), Layout.plain(3)).double()
    model.initialise(table().x, torch.Generator().manual_seed(0))
    return model


def test_refits_that_are_stopped_are_the_first_ones() -> None:
    def made(stop: Callable[[], bool]) -> list[Refit]:
        return list(refits(mixture(), table(), EmConfig(), range(4), torch.Generator().manual_seed, stop=stop))

    asked: list[int] = []
    whole = made(lambda: bool(asked.append(1)))  # type: ignore[func-returns-value]
    cut = made(after(len(asked) // 2))
    assert 0 < len(cut) < len(whole) == 4
    assert all(same_tensors(a.parameters, b.parameters) for a, b in zip(cut, whole, strict=False))


@pytest.mark.parametrize(("made", "kept"), [(3, 3), (1, 0)])
def test_refits_that_were_made_are_kept_if_they_say_anything(
    made: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Refit({"w": torch.zeros(1)}, True)
    left = [one] * made

    def refit(*_: object) -> Refit:
        if not left:
            raise GivenUp
        return left.pop()

    monkeypatch.setattr(Sampled, "refit", refit)
    recipe = Recipe(model=ModelChoice("mixture"), method=MethodChoice("em"), bootstrap=20)
    said: list[str] = []
    limit = TimeLimit(60.0)
    fit = bootstrap.Fit(mixture(), table(), None, {}, [], lambda _: None)
    named = bootstrap.refit(recipe, fit, Work(Lines(said.append), limit)).tensors
    assert len(named) == kept and limit.cut == ["refitting to resampled rows"]
    assert said[0].startswith(f"warning: {kept} of 20 refits were made within the time limit: ")


# --- the number of epochs ---


def allowed(room: float, said: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, **recipe: Any) -> pace.Allowance:
    monkeypatch.setattr(pace, "_epoch_seconds", lambda *_: 1.0)
    limit = TimeLimit(1e6, started=room - 1e6 + 3.0, clock=lambda: 0.0)
    made = Recipe(model=ModelChoice("flow"), method=MethodChoice("vgi"), **recipe)
    table, keys = make_table(torch.zeros(64, 2), torch.zeros(64, 2, dtype=torch.bool)), torch.arange(64)  # two batches
    return pace.allowance(made, Rows(table, keys, keys), torch.device("cpu"), limit, said)


def test_the_epochs_follow_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, planned, refits = allowed(200.0, (), monkeypatch, bootstrap="none")
    assert (recipe.optim, recipe.epochs, planned) == ({}, 195, 2000)  # after 15 epochs of warm-up
    recipe, planned, refits = allowed(900.0, (), monkeypatch)
    assert refits and recipe.epochs == int(0.6 * 900.0 - 4.5)  # the rest is for refits; 4.5: warm-ups
    monkeypatch.setattr(pace, "_refit_epochs", lambda *_: 81.0)  # of the fewest refits: more than two fifths
    recipe, planned, refits = allowed(200.0, (), monkeypatch)
    assert not refits and recipe.epochs == 195
    monkeypatch.undo()
    recipe, *_ = allowed(10.0, (), monkeypatch, bootstrap="none")
    assert (recipe.optim, recipe.epochs) == ({"warmup_conditionals": 5, "warmup_model": 2}, 7)
    recipe, *_ = allowed(10.0, ("optim.warmup_model",), monkeypatch, bootstrap="none", optim={"warmup_model": 8})
    assert (recipe.optim, recipe.epochs) == ({"warmup_conditionals": 4, "warmup_model": 8}, 6)
    recipe, *_ = allowed(0.5, (), monkeypatch, bootstrap="none")
    assert (recipe.optim, recipe.epochs) == ({"warmup_conditionals": 0, "warmup_model": 0}, 1)
    recipe, *_ = allowed(-2.0, (), monkeypatch, bootstrap="none")  # finding out how long an epoch takes took it all
    assert (recipe.optim, recipe.epochs) == ({"warmup_conditionals": 0, "warmup_model": 0}, 1)
    assert recipe.method_settings.optim.warmup_model == 0
    recipe, planned, _ = allowed(30.0, ("epochs",), monkeypatch, epochs=400)
    assert recipe.epochs == 400 and planned is None  # they were said
    recipe, planned, _ = allowed(9000.0, (), monkeypatch)
    assert recipe.epochs is None and planned is None  # there is time for all


def test_a_fit_ends_its_schedule_within_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a clock decided is in the recipe, which repeats it without the clock; --resume goes on to the plan."""
    monkeypatch.setattr(plateau, "PATIENCE", 10**6)  # held-out rows end nothing here
    ticking(monkeypatch, 0.05)
    options: dict[str, Any] = {"model": "flow", "set": {**FLOW, "bootstrap": 2}, "threads": 1}
    run = vgi_cli.fit(frame(), out=tmp_path / "run", time_limit=9, **options)
    planned = run.manifest["time_limit"]["epochs_without"]
    assert run.manifest["stopped_by"] == "time_limit" and 3 < run.manifest["epochs"] < planned == 750
    monkeypatch.undo()
    monkeypatch.setattr(plateau, "PATIENCE", 10**6)
    again = vgi_cli.fit(frame(), recipe=run.path / "recipe.yaml", out=tmp_path / "again")
    assert again.manifest["epochs"] == run.manifest["epochs"]
    assert same_tensors(*(RunFolder.open(r.path).tensors("model") for r in (run, again)))
    ticking(monkeypatch, 0.05)
    more = vgi_cli.fit(frame(), out=run.path, resume=True, time_limit=11)
    assert more.manifest["epochs"] > run.manifest["epochs"] and more.manifest["epochs_planned"] == planned


@pytest.mark.skipif(numba_version() is None, reason="compiled loops are turned off, or not installed")
def test_no_loop_is_compiled_for_a_fit_whose_time_is_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each of them takes seconds, and a fit of a flow wants five, all before its first step is done."""
    clock, begun = ticking(monkeypatch), list[str]()
    from vgi_cli.maths import net_kernels  # imports numba

    real = net_kernels.compiled_loop

    def slow(name: str) -> Any:
        begun.append(name)
        clock.now += 100
        return real(name)

    monkeypatch.setattr(net_kernels, "compiled_loop", slow)
    compiled.kernel.cache_clear()
    with pytest.raises(TimeUp, match="the time limit of 50 s was over before training could begin; nothing was kept"):
        vgi_cli.fit(frame(), model="flow-ar", method="vgi", out=tmp_path / "run", time_limit=50)
    assert len(begun) == 1 and not (tmp_path / "run").exists()
    assert compiled.kernel(begun[0]) is not None and compiled.kernel("splines") is not None  # as before


# --- training ---


def test_a_step_that_would_end_too_late_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ticking(0.0)
    monkeypatch.setattr("time.monotonic", clock)

    def slow(state: FakeState, stop_now: Callable[[], bool]) -> Events:
        for event in METHOD.run(state, stop_now):
            clock.now += 3.0
            yield event

    drive = new_drive(new_run(tmp_path / "run"), deadline=10.0)
    drive.advance = slow
    assert drive.go() == ("time_limit", 0, 3)  # a fourth step would end at 12


def test_a_long_step_that_asks_on_its_way_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ticking(0.0)
    monkeypatch.setattr("time.monotonic", clock)

    def run(state: Any, stop_now: Callable[[], bool]) -> Events:
        stop_now()
        clock.now = 9.0  # an imputation
        yield StepEnd()
        yield from METHOD.run(state, stop_now)

    drive = new_drive(new_run(tmp_path / "run"), epochs=2, deadline=10.0)
    drive.advance = run
    assert drive.go().stopped_by == "epochs"


def test_a_score_that_comes_too_late_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Ticking(0.0)
    monkeypatch.setattr("time.monotonic", clock)

    class Slow(Validator):
        name, words, every = "score", "{}", 1

        def score(self, state: State, over: Callable[[], bool] = never) -> float:
            clock.now += 4.0
            if over():
                raise OutOfTime
            return 1.0

    drive = new_drive(new_run(tmp_path / "run"), deadline=10.0, validator=Slow())
    outcome = drive.go()
    assert outcome.stopped_by == "time_limit" and outcome.epochs == 3 and (drive.best_epoch, drive.validated) == (1, 2)


# --- no time for a model ---


def test_a_limit_that_is_over_at_once_leaves_nothing(vgi: Vgi) -> None:
    frame().to_csv("data.csv", index=False)
    for flags in (["--model", "fa"], ["--model", "flow", "--epochs", "3"], []):
        done = vgi("fit", "data.csv", *flags, "--time-limit", "0.001", "--out", "run")
        assert done.code == 1 and done.out == "" and not Path("run").exists()
        assert done.error == (
            "stopped before training began: the time limit of 0.001 s was over once the table had been read; "
            "nothing was kept"
        )
        assert done.hint == "give it more time: starting the program and reading the table count, too"


def test_a_limit_that_is_over_before_a_fit_goes_on_leaves_its_run_as_it_was(vgi: Vgi) -> None:
    frame().to_csv("data.csv", index=False)
    assert vgi("fit", "data.csv", "--model", "fa", "--epochs", "2", "--out", "run").code == 0
    before = {path: path.read_bytes() for path in Path("run").iterdir()}
    done = vgi("fit", "--resume", "--out", "run", "--time-limit", "0.001", "--epochs", "999")
    assert (done.code, done.out, done.hint) == (1, "", "give it more time")
    assert done.error == (
        "stopped before the fit went on: the time limit of 0.001 s was over once the table had been read; "
        "'run' stays as it was"
    )
    assert {path: path.read_bytes() for path in Path("run").iterdir()} == before


def no_time_in(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """All time is over after so many seconds of training, of which each step takes one."""
    clock = Ticking(0.0)
    monkeypatch.setattr("time.monotonic", clock)
    monkeypatch.setattr(pace, "allowance", lambda recipe, *_: pace.Allowance(recipe))
    real = Drive.go

    def go(self: Drive) -> Any:
        advance = self.advance

        def slowly(state: Any, stop_now: Callable[[], bool]) -> Events:
            for event in advance(state, stop_now):
                clock.now += 1.0
                yield event

        self.advance = slowly
        clock.now = (self.deadline or 0.0) - seconds
        return real(self)

    monkeypatch.setattr(Drive, "go", go)


def test_a_fit_without_a_whole_epoch_does_not_look_finished(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    frame().to_csv("data.csv", index=False)
    flags = [item for key, value in FLOW.items() for item in ("--set", f"{key}={value}")]
    flags += ["--model", "flow", "--epochs", "4"]
    no_time_in(monkeypatch, 3.5)
    done = vgi("fit", "data.csv", *flags, "--time-limit", "100", "--out", "run")
    assert done.code == 1 and done.out == ""
    assert done.error == (
        "stopped before a model was fitted: the time limit of 100 s was over before the first epoch had ended; "
        "its steps are saved in run"
    )
    assert done.hint == "give it more time: vgi fit --resume --out run --time-limit T"
    manifest = RunFolder.open(Path("run")).manifest
    assert (manifest["status"], manifest["epochs"]) == ("running", 0)


def test_a_run_that_would_be_replaced_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"model": "flow", "set": FLOW, "epochs": 2, "threads": 1, "out": tmp_path / "run"}
    vgi_cli.fit(frame(), **options)
    before = (tmp_path / "run" / "manifest.json").read_bytes()
    no_time_in(monkeypatch, 3.5)
    with pytest.raises(TimeUp, match="over before the first epoch had ended; nothing was kept"):
        vgi_cli.fit(frame(), **options, force=True, time_limit=100)
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_fine_tuning_without_a_whole_epoch_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = vgi_cli.fit(frame(), model="flow", set=FLOW, epochs=1, threads=1, out=tmp_path / "run")
    with pytest.raises(TimeUp, match=r"stopped before fine-tuning began: the time limit of 0\.001 s was over"):
        run.finetune(frame(), time_limit=0.001, out=tmp_path / "tuned")
    no_time_in(monkeypatch, 2.5)
    with pytest.raises(TimeUp, match=r"stopped too early: .* before the first epoch had ended; nothing was kept"):
        run.finetune(frame(), time_limit=100, out=tmp_path / "tuned")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


# --- impute ---


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> vgi_cli.Run:
    path = tmp_path_factory.mktemp("flow") / "run"
    return vgi_cli.fit(frame(), model="flow", set=FLOW, epochs=2, out=path, threads=1)


def test_impute_writes_all_or_nothing(flow: vgi_cli.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    ticking(monkeypatch, 0.05)
    with pytest.raises(TimeUp, match=r"while the holes were filled: .* was over after 0 of 2\d rows with holes; not"):
        vgi_cli.impute(flow, tmp_path / "t.csv", m=2, out=tmp_path / "out.csv", time_limit=1)
    with pytest.raises(TimeUp, match="nothing was written"):
        flow.impute(m=2, time_limit=1)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_impute_that_is_late_while_it_writes_leaves_nothing(
    flow: vgi_cli.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.setattr(TimeLimit, "over", after(40))
    monkeypatch.setattr(
        "vgi_cli.commands.sampling.Sampling.fill", lambda self, source, count, draws, keys: _zeros(source, draws)
    )
    with pytest.raises(TimeUp, match=r"while the tables were written: .*; nothing was kept"):
        vgi_cli.impute(flow, tmp_path / "t.csv", m=50, out=tmp_path / "out.csv", time_limit=1000)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def _zeros(source: Any, draws: Any) -> None:
    for block in source.blocks():
        missing = np.stack([block.table.missing(name) for name in "abc"], 1)
        draws.add(block.first, missing, np.zeros((draws.m, *missing.shape)))


# --- evaluate ---

SMALL = Budget(particles=2, pilot=4, bundle=2, moves=8, samples=200, simulated=4)


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, "Budget", lambda **changes: SMALL._replace(**changes))
    monkeypatch.setattr(likelihood, "FIRST", 8)
    monkeypatch.setattr(likelihood, "MOST", 16)


def rows_of(path: Path) -> dict[int, float]:
    scored = pd.read_csv(path).dropna(subset=["loglik"])
    return dict(zip(scored["row"], scored["loglik"], strict=True))


@pytest.mark.usefixtures("cheap")
def test_a_stated_random_sample_of_rows_is_scored(flow: vgi_cli.Run, tmp_path: Path) -> None:
    said: list[str] = []
    options: dict[str, Any] = {"say": said.append, "force": True}
    report = flow.evaluate(frame(), rows=20, per_row=tmp_path / "some.csv", out=tmp_path / "e", **options)
    assert report["rows"] == 60 and report["loglik"]["rows"] == 20
    assert report["loglik"]["sample"] == {"rows": 20, "of": 60, "seed": 0}
    assert "rows scored 20 of 60, drawn at random (seed 0)" in report["notes"]
    assert "rows scored 20 of 60, drawn at random (seed 0); --rows all scores every row" in said
    assert "- rows scored 20 of 60, drawn at random (seed 0)" in (tmp_path / "e" / "report.md").read_text()
    flow.evaluate(frame(), rows="all", per_row=tmp_path / "all.csv", out=tmp_path / "e", **options)
    some, every = rows_of(tmp_path / "some.csv"), rows_of(tmp_path / "all.csv")
    assert len(some) == 20 and len(every) == 60 and sorted(some) != list(range(1, 21))
    assert all(every[row] == pytest.approx(value, abs=1e-5) for row, value in some.items())
    mean = np.mean(list(some.values()))
    assert report["loglik"]["mean"] == pytest.approx(mean, abs=1e-4) and report["loglik"]["se"] > 0


@pytest.mark.usefixtures("cheap")
def test_the_default_is_a_thousand_rows_and_all_where_each_is_asked_for(
    flow: vgi_cli.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert likelihood.SCORED_ROWS == 1000
    monkeypatch.setattr(likelihood, "SCORED_ROWS", 10)
    assert flow.evaluate(frame())["loglik"]["sample"] == {"rows": 10, "of": 60, "seed": 0}
    assert flow.evaluate(frame(), seed=1)["loglik"]["sample"]["seed"] == 1
    report = flow.evaluate(frame(), per_row=tmp_path / "all.csv", out=tmp_path / "e")
    assert "sample" not in report["loglik"] and len(rows_of(tmp_path / "all.csv")) == 60
    complete = flow.evaluate(frame().fillna(0.0))  # nothing to estimate
    assert complete["loglik"]["estimator"] == "exact" and complete["loglik"]["rows"] == 60


def test_exact_likelihoods_are_those_of_all_rows(tmp_path: Path) -> None:
    run = vgi_cli.fit(frame(), model="fa", set={"model.factors": 1, "bootstrap": 0}, out=tmp_path / "run", threads=1)
    said: list[str] = []
    report = run.evaluate(frame(), rows=5, say=said.append)
    assert report["loglik"]["rows"] == 60 and "sample" not in report["loglik"]
    assert "the likelihood of these rows is exact: all of them are scored, whatever --rows says" in said


@pytest.mark.parametrize("rows", [0, -1, "some", "3", 2.5, True])
def test_a_number_of_rows_that_cannot_be_is_refused(flow: vgi_cli.Run, rows: Any) -> None:
    with pytest.raises(UsageError, match="--rows: expected a whole number from 1, or all, got"):
        flow.evaluate(frame(), rows=rows)


def test_rows_on_the_command_line(vgi: Vgi, flow: vgi_cli.Run) -> None:
    frame().to_csv("data.csv", index=False)
    done = vgi("evaluate", "--checkpoint", str(flow.path), "data.csv", "--rows", "few")
    assert done.code == 2 and done.error == "--rows: expected a whole number from 1, or all, got 'few'"


@pytest.mark.usefixtures("cheap")
def test_rows_that_were_scored_in_time_are_reported(
    flow: vgi_cli.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = flow.evaluate(frame(), per_row=tmp_path / "all.csv", out=tmp_path / "whole")
    assert "simulated" in whole["loglik"]
    real = likelihood.data_log_prob
    limit = [False]

    def slow(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        limit[0] = len(arguments[3]) == 16  # over after 8 and 16 rows
        return result

    monkeypatch.setattr(likelihood, "data_log_prob", slow)
    monkeypatch.setattr(TimeLimit, "passed", lambda self, moment: limit[0])
    said: list[str] = []
    out = {"per_row": tmp_path / "cut.csv", "out": tmp_path / "cut"}
    report = flow.evaluate(frame(), time_limit=1000, say=said.append, **out)
    assert report["loglik"]["sample"] == {"rows": 24, "of": 60, "seed": 0} and "simulated" not in report["loglik"]
    assert report["time_limit"] == {"seconds": 1000.0, "ended_early": ["scoring the rows"]}
    line = (
        "rows scored 24 of 60, drawn at random (seed 0); 60 were asked for, stopped early by the time limit of 1000 s"
    )
    assert line in said
    cut, every = rows_of(tmp_path / "cut.csv"), rows_of(tmp_path / "all.csv")
    assert len(cut) == 24 and all(every[row] == pytest.approx(value, abs=1e-5) for row, value in cut.items())


def test_an_evaluation_without_a_scored_row_fails(flow: vgi_cli.Run, tmp_path: Path) -> None:
    with pytest.raises(TimeUp, match=r"the time limit of 0\.001 s was over before a row was scored; nothing was wri"):
        flow.evaluate(frame(), time_limit=0.001, out=tmp_path / "e")
    assert not (tmp_path / "e").exists()


@pytest.mark.usefixtures("cheap")
def test_parts_that_there_is_no_time_for_are_left_out_by_name(
    flow: vgi_cli.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, over = likelihood.log_likelihood, [False]

    def scored(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        over[0] = True
        return result

    monkeypatch.setattr("vgi_cli.commands.evaluate.command.log_likelihood", scored)
    monkeypatch.setattr(TimeLimit, "over", lambda self: over[0])
    more: dict[str, Any] = {"truth": frame().fillna(0.0), "conditionals": True, "objective": True}
    report = flow.evaluate(frame(), rows=8, time_limit=1000, **more)
    assert report["loglik"]["rows"] == 8 and not {"imputation", "conditionals", "objective"} & set(report)
    for part in ("the score of the imputations", "the conditionals", "the objective"):
        assert f"left out: {part}, as the time limit of 1000 s was over" in report["notes"]


@pytest.mark.slow
@pytest.mark.usefixtures("cheap")
def test_imputations_by_chains_are_scored_in_a_stated_sample_of_rows(
    flow: vgi_cli.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In those that --rows says, or in 5,000; where draws are exact in all."""
    assert evaluate.IMPUTED_ROWS == 5000
    monkeypatch.setattr(evaluate, "IMPUTED_ROWS", 15)
    holes, truth = frame().isna().to_numpy().sum(), frame().fillna(0.0)
    said: list[str] = []
    found = {}
    for rows in (None, 12, "all"):
        report = flow.evaluate(frame(), rows=rows, truth=truth, say=said.append)
        found[rows] = sum(c["cells"] for c in report["imputation"]["columns"].values())
        notes = [note for note in report.get("notes", []) if note.startswith("imputations are scored in")]
        count = {None: 15, 12: 12}.get(rows)
        assert notes == (
            [] if count is None else [f"imputations are scored in {count} of 60 rows, drawn at random (seed 0)"]
        )
    assert 0 < found[12] <= found[None] < found["all"] == holes
    assert "imputations are scored in 15 of 60 rows, drawn at random (seed 0); --rows all scores every row" in said
    exact = vgi_cli.fit(frame(), model="fa", set={"bootstrap": "none"}, out=tmp_path / "fa", threads=1)
    report = exact.evaluate(frame(), rows=12, truth=truth)
    assert sum(c["cells"] for c in report["imputation"]["columns"].values()) == holes


@pytest.mark.usefixtures("cheap")
def test_imputations_that_were_drawn_in_time_are_scored(flow: vgi_cli.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgi_cli.commands.evaluate.command.PIECE", 20)
    real, drawn = evaluate.Sampling.draw, []

    def draw(self: Any, rows: Any, watch: Any) -> Any:
        drawn.append(1)
        if len(drawn) == 3:
            raise OutOfTime
        return real(self, rows, watch)

    monkeypatch.setattr("vgi_cli.commands.evaluate.command.Sampling.draw", draw)
    report = flow.evaluate(frame(), rows="all", time_limit=10_000, truth=frame().fillna(0.0))
    assert sum(c["cells"] for c in report["imputation"]["columns"].values()) < frame().isna().to_numpy().sum()
    note = "imputations are scored in 40 of 60 rows, drawn at random, as the time limit of 10000 s was over"
    assert note in report["notes"]


@pytest.mark.usefixtures("cheap")
def test_ctrl_c_keeps_what_was_scored(
    vgi: Vgi, flow: vgi_cli.Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frame().to_csv("data.csv", index=False)
    real = likelihood.data_log_prob

    def interrupting(*arguments: Any, **options: Any) -> Any:
        result = real(*arguments, **options)
        if len(arguments[3]) == 16:
            signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(likelihood, "data_log_prob", interrupting)
    done = vgi("evaluate", "--checkpoint", str(flow.path), "data.csv", "--json", "-o", "e")
    assert done.code == 130 and done.error == "stopped early, with what there was reported, by SIGINT"
    report = json.loads(done.out)
    assert report["loglik"]["sample"]["rows"] == 24 and report == json.loads(Path("e/report.json").read_text())
    monkeypatch.setattr(likelihood, "data_log_prob", lambda *_, **__: signal.raise_signal(signal.SIGTERM) or _raise())
    with pytest.raises(Interrupted, match="stopped before a row was scored by SIGTERM") as caught:
        flow.evaluate(frame())
    assert caught.value.exit_code == 143


def _raise() -> None:
    raise OutOfTime
