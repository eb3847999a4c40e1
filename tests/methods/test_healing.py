"""Steps with numbers that are not finite: training goes back, halves its steps, and stops by name if they return."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fitting.fakes import FakeModel
from tests.selection import covering
from tests.tensors import same_tensors
from vgi_cli.data import TensorTable, make_table
from vgi_cli.errors import FitError
from vgi_cli.layout import Layout
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.em import mcem
from vgi_cli.methods.gradient import GradientState, chains_of, log_likelihood, run
from vgi_cli.methods.loop import MOST_HEALED, RUNAWAY
from vgi_cli.methods.optimisation import AscentConfig, ascend
from vgi_cli.methods.vgi import state as loop_state
from vgi_cli.methods.vgi import vgi
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.state import VgiState
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis

EPOCHS, BATCHES = 12, 4


def table(holes: float = 0.0) -> TensorTable:
    g = torch.Generator().manual_seed(3)
    x = torch.randn(64, 3, generator=g, dtype=torch.float64)
    x[5, 1] = 40.0
    missing = torch.rand(64, 3, generator=g) < holes
    missing[5, 1] = False
    return make_table(x.masked_fill(missing, 0.0), missing, Layout.of(["a", "b", "c"]))


def gradient_state(objective: Any) -> GradientState:
    config = AscentConfig(epochs=EPOCHS, optim={"batch_size": 16, "lr": 0.05})
    model = FakeModel(3)
    return GradientState(model, chains_of(table(), config), config, 7, objective, keeps=False)


def failing(steps: set[int], how: str) -> Callable[[GradientState, Any, torch.Generator], Tensor]:
    """The log-likelihood; in some steps it is NaN itself, or its gradient is, at a value that is finite."""

    def objective(state: GradientState, batch: Any, generator: torch.Generator) -> Tensor:
        value = log_likelihood(state, batch, generator)
        if state.stage_epoch * BATCHES + state.position not in steps:
            return value
        if how == "objective":
            return value * math.nan
        mean = state.theta.mean[0]  # type: ignore[union-attr]
        return value + torch.sqrt((mean - mean.detach()) ** 2)  # 0, with gradient 0 / 0

    return objective


def metrics_of(events: Any) -> list[dict[str, Any]]:
    return [event.metrics for event in events if isinstance(event, EpochEnd)]


@pytest.mark.parametrize("how", ["objective", "gradient"])
@pytest.mark.parametrize("steps", [{0}, {9}, {20, 21, 33}])
def test_a_step_that_is_not_finite_is_not_taken_and_is_counted(how: str, steps: set[int]) -> None:
    state = gradient_state(failing(steps, how))
    metrics = metrics_of(run(state))
    assert len(metrics) == EPOCHS
    assert state.healed == len(steps)
    for epoch, line in enumerate(metrics):
        here = [step for step in steps if step // BATCHES == epoch]
        so_far = [step for step in steps if step // BATCHES <= epoch]
        assert math.isfinite(line["objective"])
        assert line.get("healed", 0) == len(here)
        if here:
            assert line["rate_factor"] == 0.5 ** len(so_far)
    assert all(value.isfinite().all() for value in state.theta.state_dict().values())


def test_an_epoch_of_which_no_step_was_taken_has_no_objective() -> None:
    metrics = metrics_of(run(gradient_state(failing(set(range(BATCHES, 2 * BATCHES)), "objective"))))
    assert metrics[1]["healed"] == BATCHES <= MOST_HEALED
    assert ["objective" in line for line in metrics] == [True, False] + [True] * (EPOCHS - 2)


def test_training_goes_back_to_where_a_step_could_be_taken_and_goes_on_with_half_the_rate() -> None:
    state = gradient_state(failing({23}, "objective"))
    seen: list[Tensor] = []
    for _ in run(state):
        seen.append(state.theta.mean.detach().clone())  # type: ignore[union-attr]
        if state.healed:
            break
    assert torch.equal(seen[-1], seen[5 * (BATCHES + 1) - 1])  # copied at the start of epoch 6, 20 steps from the first
    state.set_rates(1.0)
    assert state.optim_theta.param_groups[0]["lr"] == 0.5 * state.lr


@pytest.mark.parametrize("cut", [3, 24, 26, 27, 41, 44])
def test_a_fit_that_healed_resumes_bit_for_bit(cut: int) -> None:
    objective = failing({19, 20, 34}, "gradient")
    whole = gradient_state(objective)
    first = gradient_state(objective)
    lines = metrics_of(run(whole))
    found = []
    for count, event in enumerate(run(first), 1):
        found += [event.metrics] if isinstance(event, EpochEnd) else []
        if count == cut:
            break
    second = gradient_state(objective)
    second.restore(first.parts())
    found += metrics_of(run(second))
    assert found == lines
    a, b = whole.parts(), second.parts()
    assert all(same_tensors(a[stem], b[stem]) for stem in a)
    assert not any(name.startswith("good/") for name in a["state"])


def test_a_fit_without_trouble_keeps_nothing_of_it() -> None:
    state = gradient_state(log_likelihood)
    assert all("healed" not in line for line in metrics_of(run(state)))
    assert not any(name.startswith(("good/", "healed")) for name in state.parts()["state"])


def test_trouble_that_returns_ends_the_fit_by_name() -> None:
    state = gradient_state(failing(set(range(10, 1000)), "objective"))
    with pytest.raises(
        FitError, match=f"the objective is no longer finite in epoch 4, for the {MOST_HEALED + 1}th"
    ) as e:
        metrics_of(run(state))
    assert "Look at column '" in e.value.message and "the last good checkpoint is kept" in e.value.message
    assert e.value.hint is not None and "optim.lr" in e.value.hint


@pytest.mark.parametrize("value", [math.nan, 1e31])
@pytest.mark.parametrize("epoch", [1, 2, EPOCHS])
def test_parameters_that_no_fit_has_are_not_published(value: float, epoch: int) -> None:
    """The last step of an epoch led to them: no step follows that would meet them, in the last epoch none at all."""
    state, steps, lines = gradient_state(log_likelihood), 0, []
    for event in run(state):
        if isinstance(event, EpochEnd):
            lines.append(event.metrics)
            continue
        steps += 1
        if steps == epoch * BATCHES:
            with torch.no_grad():
                state.theta.mean.fill_(value)  # type: ignore[union-attr]
    assert [line.get("healed", 0) for line in lines] == [int(number == epoch) for number in range(1, EPOCHS + 1)]
    assert state.healed == 1
    for part in (state.theta, state.model):
        assert all(value.abs().max() < 100 for value in part.state_dict().values())


def test_after_a_first_step_that_failed_a_later_one_finds_its_way_back() -> None:
    state = gradient_state(failing({0}, "objective"))
    begun = {name: value.clone() for name, value in state.theta.state_dict().items()}
    for number, event in enumerate(run(state), 1):
        if number == BATCHES:  # the last step of the first epoch
            with torch.no_grad():
                state.theta.mean.fill_(math.nan)  # type: ignore[union-attr]
        if isinstance(event, EpochEnd):
            break
    assert state.healed == 2
    assert same_tensors(state.theta.state_dict(), begun)


def vgi_state(**settings: Any) -> VgiState:
    optim = {"batch_size": 32, "warmup_conditionals": 1, "warmup_model": 1}
    config = VgiConfig(**{"epochs": 6, "trunk": (4,), "hidden": (4,), "optim": optim, **settings})
    data = table(0.2)
    model = FactorAnalysis.build(FaConfig(factors=1), data.layout).double()
    return vgi.METHOD.init(model, data, config, torch.Generator().manual_seed(1))  # type: ignore[return-value]


def test_a_conditional_that_dies_comes_back() -> None:
    """Its parameters are no numbers any more in the middle of a fit."""
    state, done = vgi_state(), False
    for event in vgi.run(state):
        if isinstance(event, EpochEnd) and state.epoch == 3 and not done:
            done = True
            with torch.no_grad():
                next(iter(state.q.parameters())).fill_(math.nan)
        if isinstance(event, EpochEnd):
            assert math.isfinite(event.metrics["objective"])
    assert done and state.healed == 1 and state.epoch == 6
    for part in (state.q, state.theta, state.model):
        assert all(value.isfinite().all() for value in part.parameters())
    assert all(v.isfinite().all() for v in state.chains.tensors().values() if v.is_floating_point())


@covering(
    pytest.mark.parametrize("always", [False, True]),
    pytest.mark.parametrize("value", [math.nan, math.inf, 10 * RUNAWAY]),
)
def test_a_chain_that_runs_away_is_not_stored(monkeypatch: pytest.MonkeyPatch, value: float, always: bool) -> None:
    plain, calls = VgiState.update, 0

    def update(state: VgiState, x: Tensor, missing: Tensor, noise: Any) -> Tensor:
        nonlocal calls
        calls += 1
        x = plain(state, x, missing, noise)
        if always or calls == 4:
            x = x.clone()
            x[:, 2] = torch.where(missing[:, 2], value, x[:, 2])
        return x

    monkeypatch.setattr(VgiState, "update", update)
    state = vgi_state()
    if always:
        with pytest.raises(FitError, match=r"an imputation is no longer finite .* Look at column 'c'"):
            metrics_of(vgi.run(state))
    else:
        metrics_of(vgi.run(state))
        assert state.healed == 1
    assert all(v.isfinite().all() for v in state.chains.tensors().values() if v.is_floating_point())


@pytest.mark.parametrize("always", [False, True])
def test_a_conditional_whose_moves_are_all_refused_is_dead(monkeypatch: pytest.MonkeyPatch, always: bool) -> None:
    """Its numbers are finite: from the end of epoch 3 on it proposes what the model never takes."""
    monkeypatch.setattr(loop_state, "STILL", 20)
    state = vgi_state(accept="metropolis", epochs=10)
    lines = []

    def go() -> None:
        for event in vgi.run(state):
            if isinstance(event, EpochEnd) and state.epoch >= 1:
                lines.append(event.metrics)
                if state.epoch >= 3 and (always or state.epoch == 3):
                    with torch.no_grad():
                        for parameter in state.q.parameters():
                            parameter.copy_(50.0)

    if always:
        with pytest.raises(FitError, match=r"^no imputation of 'a' was moved in epoch 9, for the 6th .* column 'a'$"):
            go()
    else:
        go()
        assert [line.get("still") for line in lines] == [None] * 3 + ["a"] + [None] * 6
        assert lines[3]["healed"] == 1 and lines[3]["rate_factor"] == 0.5 and lines[3]["acceptance"] == [0, 0, 0]
        assert all(rate > 0 for rate in lines[4]["acceptance"]) and "healed" not in lines[4]


@pytest.mark.parametrize("refresh", ["step", "epoch"])
def test_draws_of_the_model_that_run_away_are_not_climbed_on(monkeypatch: pytest.MonkeyPatch, refresh: str) -> None:
    """Of Monte-Carlo EM: finite, and beyond what any imputation is."""
    plain, calls = mcem.exact_draws, 0

    def draws(*arguments: Any) -> Tensor:
        nonlocal calls
        calls += 1
        return plain(*arguments) + (10 * RUNAWAY if calls == 4 else 0.0)

    monkeypatch.setattr(mcem, "exact_draws", draws)
    config = mcem.McemConfig(refresh=refresh, epochs=6, optim={"batch_size": 16, "lr": 0.01})  # type: ignore[arg-type]
    data = table(0.2)
    model = FactorAnalysis.build(FaConfig(factors=1), data.layout).double()
    state = mcem.init(model, data, config, torch.Generator().manual_seed(1))
    lines = metrics_of(run(state))
    assert state.healed == (1 if refresh == "step" else BATCHES) and all(
        abs(line.get("objective", 0)) < 1e3 for line in lines
    )


def test_a_step_without_clipping_is_watched_too() -> None:
    model = torch.nn.Linear(2, 1)
    optimiser = torch.optim.Adam(model.parameters())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(Exception, match="a gradient"):
        ascend(torch.sqrt((model.weight - model.weight.detach()).square().sum()), None, optimiser)
    assert same_tensors(before, model.state_dict())


@pytest.mark.parametrize(("gradient", "part"), [("objective", "objective"), ("accepted", "likelihood")])
@pytest.mark.parametrize("at", [0, 5])
def test_a_step_that_fails_after_its_imputations_were_drawn_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, gradient: str, part: str, at: int
) -> None:
    """Where theta has a gradient of its own (`accepted`), phi has been moved before that one fails."""
    state = vgi_state(gradient=gradient, optim={"batch_size": 32, "warmup_conditionals": 0, "warmup_model": 0})
    plain = getattr(type(state.target), part)

    def objective(*args: Any) -> Tensor:
        value: Tensor = plain(*args)
        return value * math.nan if state.stage_epoch * state.batches + state.position == at else value

    monkeypatch.setattr(type(state.target), part, objective)
    kept = [{k: v.clone() for k, v in state.parts()["imputations"].items()}]
    first = {k: v.clone() for k, v in state.q.state_dict().items()}
    for event in vgi.run(state):
        if state.healed:
            break
        if not isinstance(event, EpochEnd):
            kept.append({k: v.clone() for k, v in state.parts()["imputations"].items()})
    assert state.healed == 1 and len(kept) == at + 1
    assert same_tensors(kept[-1], state.parts()["imputations"])
    assert same_tensors(first, state.q.state_dict())  # at the start of the first epoch


def test_after_the_learning_rate_began_to_fall_a_step_that_fails_goes_back_too() -> None:
    """What it goes back to is copied at the start of the next epoch, whichever that is."""
    state = gradient_state(failing({14}, "objective"))
    for event in run(state):
        if isinstance(event, EpochEnd) and event.epoch == 3:
            state.fall(state.snapshot(), 6)
            began = state.theta.mean.detach().clone()  # type: ignore[union-attr]
        if state.healed:
            break
    assert torch.equal(state.theta.mean, began)  # type: ignore[arg-type]
