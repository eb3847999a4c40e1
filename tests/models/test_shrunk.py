"""Mixtures whose covariances are shrunk to a matrix that is made of the rows."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from tests.resamples import refits
from vgi_cli.data import TensorTable
from vgi_cli.layout import Layout
from vgi_cli.methods.em import em
from vgi_cli.methods.em.sizing import ComparedRows, choose_size, describe, plain
from vgi_cli.methods.em.steps import AIMED, climb, em_step, settle
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.full import FullGaussians
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.models.gaussian.shrunk import ROW, ShrunkGaussians

pytestmark = pytest.mark.full_fits(
    "models.gaussian.fa.FactorAnalysis.tolerance", "models.gaussian.mixture.GaussianMixture.tolerance"
)

D = 6
LAYOUT = Layout.plain(D)


def table(N: int, share: float, seed: int = 0) -> TensorTable:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(N, D, dtype=torch.float64, generator=generator)
    x[:, 1:4] += 1.5 * x[:, :1]
    missing = torch.rand(N, D, generator=generator) < share
    missing[:, 0] &= ~missing.all(1)
    x[missing] = 0.0
    return TensorTable(x, missing, LAYOUT)


def mixture(to: str, nu: float, K: int = 1, outliers: bool = False) -> GaussianMixture:
    config = MixtureConfig(components=K, covariance="full", shrink_to=to, shrinkage=nu, outliers=outliers)  # type: ignore[arg-type]
    return GaussianMixture.build(config, LAYOUT).double()


def fitted(model: GaussianMixture, data: TensorTable, epochs: int = 60) -> Any:
    generator = torch.Generator().manual_seed(0)
    model.initialise(em.completed(data, generator), generator)
    rows = em_table(data.x, data.missing)
    climb(model, rows, model.penalty(None, 1e-3), epochs=epochs, tolerance=1e-13)
    return rows


@pytest.mark.parametrize("to", ["diagonal", "factors", "pairs"])
@pytest.mark.parametrize("nu", [3.0, 200.0])
def test_of_complete_rows_the_covariance_is_drawn_to_the_target_by_so_many_rows(to: str, nu: float) -> None:
    data = table(80, 0.0)
    model = mixture(to, nu)
    rows = fitted(model, data)
    penalty, learnt = model.penalty(None, 1e-3), model.learnt
    assert isinstance(learnt, ShrunkGaussians)
    scale, centre = rows.scale, data.x.mean(0)
    scatter = (data.x - centre).mT @ (data.x - centre)
    within = (scatter + ROW * torch.diag(scale.variance)) / (80 + ROW)
    torch.testing.assert_close(learnt.within, within)
    expected = (scatter + nu * learnt.target + penalty.floor * torch.diag(scale.variance)) / (80 + nu)
    torch.testing.assert_close(model.gaussians.moments().covariance[0], expected, rtol=1e-6, atol=1e-6)
    if to == "diagonal":
        torch.testing.assert_close(learnt.target, torch.diag(within.diagonal()), rtol=1e-5, atol=0.0)


@pytest.mark.parametrize("K", [1, 3])
def test_the_climb_ends_where_the_objective_is_flat(K: int) -> None:
    data = table(120, 0.3)
    model = mixture("pairs", 20.0, K)
    rows = fitted(model, data, 400)
    value = model.objective(rows, model.penalty(None, 1e-3)).objective
    worst = 0.0
    for parameter in (model.learnt.mean, model.learnt.tril):
        for index in range(0, parameter.numel(), 7):
            flat = parameter.data.view(-1)
            if flat[index] == 0.0:
                continue
            before, values = flat[index].clone(), []
            for step in (1e-4, -1e-4):
                flat[index] = before + step
                values.append(model.objective(rows, model.penalty(None, 1e-3)).objective)
            flat[index] = before
            assert all(one <= value + 1e-9 for one in values)
            worst = max(worst, abs(float(values[0] - values[1])) / 2e-4)
    assert worst < 0.05


def test_steps_never_lower_the_objective_of_one_target() -> None:
    data = table(60, 0.4)
    model = mixture("factors", 30.0, 2, outliers=True)
    rows, penalty = fitted(model, data, 2), model.penalty(None, 1e-3)
    before = model.learnt.target.clone()  # type: ignore[union-attr]
    values = [float(model.em_step(rows, penalty).objective) for _ in range(20)]
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(values))
    assert torch.equal(before, model.learnt.target)  # type: ignore[arg-type]
    model.refine(rows, penalty)
    assert not torch.equal(before, model.learnt.target)  # type: ignore[arg-type]


def test_a_fit_is_resumed_bit_for_bit_across_a_new_target() -> None:
    data = table(70, 0.3)
    config = em.METHOD.Config(epochs=14, tolerance=1e-12)  # type: ignore[call-arg]

    def begun() -> em.EmState:
        return em.begin(mixture("pairs", 12.0, 2), data, config, torch.Generator().manual_seed(3), em_step)  # type: ignore[arg-type]

    whole = begun()
    for _ in em.run(whole):
        pass
    for stop in (1, 3, 4, 10):
        first = begun()
        for _ in em.run(first, lambda first=first, stop=stop: first.epoch >= stop):  # type: ignore[misc]
            if first.epoch >= stop:
                break
        second = begun()
        second.restore({k: {n: t.clone() for n, t in part.items()} for k, part in first.parts().items()})
        for _ in em.run(second):
            pass
        expected, found = whole.parts(), second.parts()
        assert all(torch.equal(expected["model"][name], value) for name, value in found["model"].items())


def test_a_new_target_does_not_end_a_fit() -> None:
    """The objective of another target may be lower: that is no sign of convergence."""
    state = em.begin(
        mixture("pairs", 500.0), table(50, 0.5), em.METHOD.Config(epochs=40, tolerance=1e-9),  # type: ignore[call-arg, arg-type]
        torch.Generator().manual_seed(0), em_step,
    )  # fmt: skip
    for _ in em.run(state):
        if state.epoch in AIMED and not state.converged:
            assert float(state.objective) == -torch.inf
    assert state.epoch > 4


def test_refits_make_targets_of_their_own_rows() -> None:
    data, model = table(80, 0.2), mixture("pairs", 40.0)
    fitted(model, data)
    config = em.METHOD.Config()
    found = list(refits(model, data, config, range(3), lambda number: torch.Generator().manual_seed(number)))  # type: ignore[arg-type]
    targets = [one.parameters["gaussians.target"] for one in found] + [model.learnt.target]
    assert all(not torch.allclose(a, b) for i, a in enumerate(targets) for b in targets[:i])
    assert all(one.settled for one in found)


def test_settling_makes_the_target_anew_where_it_may() -> None:
    data = table(80, 0.2)
    model = mixture("pairs", 40.0)
    rows, penalty = fitted(model, data, 2), model.penalty(None, 1e-3)
    before = model.learnt.target.clone()  # type: ignore[union-attr]
    settle(model, rows, penalty, steps=20, tolerance=1e-6, refine=False)
    assert torch.equal(before, model.learnt.target)  # type: ignore[arg-type]
    settle(model, rows, penalty, steps=20, tolerance=1e-6)
    assert not torch.equal(before, model.learnt.target)  # type: ignore[arg-type]


@pytest.mark.full_fits("methods.em.sizing.EPOCHS", "methods.em.sizing.FOLDS", "methods.start.ITERATIONS")
def test_the_strength_is_chosen_by_held_out_rows() -> None:
    """Independent columns bear any pull towards no correlation; a common factor of all pays for a weak one."""
    config = MixtureConfig(components=1, covariance="full", shrink_to="diagonal")
    noise = torch.randn(40, D, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    alike = noise[:, :1] + 0.1 * torch.randn(40, D, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    chosen = []
    for x in (noise, alike):
        data = TensorTable(x, torch.zeros(40, D, dtype=torch.bool), LAYOUT)
        sizing = choose_size(
            GaussianMixture, config, ComparedRows(data, torch.Generator().manual_seed(0)), em.METHOD.Config()
        )  # type: ignore[arg-type]
        chosen.append(sizing.config.shrinkage)
        assert len(sizing.tried) >= 3 and {one.config.components for one in sizing.tried} == {1}
    assert chosen[0] > chosen[1]
    assert plain(sizing.config) == f"1 cluster, shrunk by {chosen[1]:g} rows"
    assert describe(sizing.config) == f"1 component, full, diagonal, by {chosen[1]:g} rows"


def test_broad_components_have_no_target() -> None:
    model = mixture("factors", 10.0, 2, outliers=True)
    kinds = {type(part) for part in model.modules() if isinstance(part, FullGaussians)}
    assert kinds == {FullGaussians, ShrunkGaussians}
    assert model.penalty(3.0, 1e-3).pooling == 10.0


def test_a_plain_mixture_is_kept_as_ever() -> None:
    plain = GaussianMixture.build(MixtureConfig(components=2, covariance="full"), LAYOUT)
    assert set(plain.state_dict()) == {"logits", "gaussians.mean", "gaussians.tril"}
    wide = GaussianMixture.build(MixtureConfig(components=2, covariance="full", outliers=True), LAYOUT)
    parts = {f"gaussians.{part}.{name}" for part in ("learnt", "broad") for name in ("mean", "tril")}
    assert set(wide.state_dict()) == {"logits", *parts}
    shrunk = mixture("pairs", 3.0, 2)
    assert set(shrunk.state_dict()) - set(plain.state_dict()) == {"gaussians.within", "gaussians.target"}


def test_a_fit_that_had_converged_goes_on_after_a_new_target() -> None:
    config = em.METHOD.Config(epochs=60, tolerance=10.0)  # type: ignore[call-arg]
    state = em.begin(mixture("pairs", 30.0), table(60, 0.3), config, torch.Generator().manual_seed(0), em_step)  # type: ignore[arg-type]
    ended = []
    for _ in em.run(state):
        ended.append((state.epoch, state.converged))
    assert state.converged and not any(converged for epoch, converged in ended if epoch in AIMED)
