"""PLMCMC as a method: when its rounds are, what they leave, and that a fit can stop inside one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.contracts.test_methods import events
from tests.selection import first
from vgi_cli.completers.base import never
from vgi_cli.data import TensorTable, make_table
from vgi_cli.layout import Layout
from vgi_cli.methods import plmcmc
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.gradient import COMPLETE, GradientState
from vgi_cli.methods.plmcmc import PlmcmcConfig, round_before
from vgi_cli.models.flows.coupling import Flow, FlowConfig

SMALL = {"steps": 1, "hidden": 8, "bins": 4, "blocks": 1}


def table(N: int = 120, share: float = 0.4) -> TensorTable:
    g = torch.Generator().manual_seed(0)
    z = torch.randn(N, 1, generator=g, dtype=torch.float64)
    x = torch.cat([z, z + 0.5 * torch.randn(N, 1, generator=g, dtype=torch.float64), -z.square()], 1)
    x = (x - x.mean(0)) / x.std(0)
    missing = torch.rand(N, 3, generator=g) < share
    missing[0] = share > 0
    return make_table(x, missing)


def start(data: TensorTable, **settings: Any) -> GradientState:
    config = PlmcmcConfig.model_validate({"epochs": 4, "imputations": 3, "optim": {"batch_size": 64}, **settings})
    flow = Flow.build(FlowConfig(**SMALL), Layout.plain(3)).double()
    return plmcmc.init(flow, data, config, torch.Generator().manual_seed(1))


def filled(state: GradientState) -> Tensor:
    """[K, N, D]."""
    return torch.stack([state.chains.completed(k) for k in range(state.chains.K)])


def test_rounds_of_miniboone_are_those_of_the_paper() -> None:
    """866 epochs: first at 40, then every 50 epochs; 500, 2,000 from 350 and 3,000 from 600 steps: 28,500 in all."""
    steps = ((0.0, 500), (350 / 866, 2000), (600 / 866, 3000))
    config = PlmcmcConfig(first=40 / 866, every=50 / 866, steps=steps)
    rounds = {epoch: round_before(config, epoch, 866) for epoch in range(866)}
    due = {epoch: r.steps for epoch, r in rounds.items() if r.steps}
    assert list(due) == list(range(40, 866, 50))
    assert due[340] == 500 and due[390] == 2000 and due[590] == 2000 and due[640] == 3000
    assert [epoch for epoch, r in rounds.items() if r.noise] == list(range(40))
    assert sum(due.values()) == 28_500


def test_the_default_has_some_rounds_whatever_the_number_of_epochs() -> None:
    for epochs in (1, 7, 50, 400):
        rounds = [round_before(PlmcmcConfig(), epoch, epochs) for epoch in range(epochs)]
        assert min(epochs, 15) <= sum(r.steps > 0 for r in rounds) <= 17
        assert sum(r.noise for r in rounds) == round(0.04 * epochs)
    assert round_before(PlmcmcConfig(first=0.0, steps=((0.5, 7),)), 0, 10).steps == 7  # nothing has begun: the first


def test_before_the_first_round_imputations_are_noise_and_new_in_every_epoch() -> None:
    data = table()
    state = start(data, first=1.0, outside="keep", imputations=40)
    seen = []
    for event in plmcmc.run(state):
        if isinstance(event, EpochEnd):
            seen.append(state.chains.tensors()["values"].clone())
            assert "metropolis_steps" not in event.metrics
    holes = data.missing & ~data.missing.all(1, keepdim=True)
    cells = filled(state)[:, holes]
    assert abs(float(cells.mean())) < 0.05 and abs(float(cells.std()) - 1) < 0.05
    assert not bool((seen[0] == seen[1]).any())


@pytest.mark.slow
def test_a_round_draws_given_the_row_and_says_what_it_cost() -> None:
    """A kernel that mixes, and a learning rate of nothing: fills follow the flow that is fitted, which is standard
    normal, and stay until the next round."""
    data = table(200)
    settings = {"auxiliary_std": 0.7, "perturb_std": 0.5, "steps": ((0, 60),), "first": 0.0, "every": 0.5}
    state = start(data, **settings, outside="keep", imputations=20, optim={"lr": 1e-12, "batch_size": 64})
    ends, values = [], []
    for event in plmcmc.run(state):
        if isinstance(event, EpochEnd):
            ends.append(event.metrics)
            values.append(state.chains.tensors()["values"].clone())
    assert [end.get("metropolis_steps") for end in ends] == [60.0, None, 60.0, None]
    assert 0.1 < ends[0]["acceptance"] < 0.9 and abs(ends[0]["strain"] - 1) < 0.1
    assert torch.equal(values[0], values[1]) and not bool((values[1] == values[2]).any())
    cells = filled(state)
    u = state.theta.to_base(cells)[0]  # missing cells of an uncorrelated flow are independent of the observed ones
    white = u.detach()[:, :, state.theta.linear.permutation[0].argsort()][:, data.missing]
    assert abs(float(white.mean())) < 0.05 and abs(float(white.std()) - 1) < 0.05
    assert torch.equal(cells[:, ~data.missing], data.x[~data.missing].expand(20, -1))


def test_chains_that_have_not_arrived_are_doubted() -> None:
    state = start(table())
    assert plmcmc.warning(state, {}) is None and plmcmc.warning(state, {"strain": 1.9}) is None
    doubt = plmcmc.warning(state, {"strain": 1.93e5})
    assert doubt is not None and doubt.startswith(
        "the imputations of the fit do not follow their rows yet (strain 1.93e+05 after"
    )
    assert "method.auxiliary_std and method.perturb_std" in doubt


@pytest.mark.parametrize("outside", first(1, ["clamp", "reject"]))
def test_imputations_stay_in_the_observed_range(outside: str) -> None:
    data = table()
    ranges = plmcmc.observed_range(data)
    state = start(data, outside=outside, first=0.25, every=0.25, steps=((0, 60),), auxiliary_std=0.5, perturb_std=0.3)
    events(plmcmc.METHOD, state)
    partly = ~data.missing.all(1)
    cells = filled(state)[:, partly]
    inside = (cells >= ranges[0]) & (cells <= ranges[1])
    assert bool(inside.all()) if outside == "clamp" else float(inside.double().mean()) > 0.99
    edge = ((cells == ranges[0]) | (cells == ranges[1])) & data.missing[partly]
    assert bool(edge.any()) == (outside == "clamp")


@pytest.mark.slow  # the contract suite resumes between rounds
def test_a_fit_goes_on_from_inside_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plmcmc, "CHAINS", 90)
    monkeypatch.setattr(plmcmc, "SEGMENT", 10)
    settings = {"steps": ((0, 25),), "first": 0.5, "every": 0.25}
    whole = start(table(), **settings)
    groups = -(-len(whole.incomplete) // 30)
    seen = events(plmcmc.METHOD, whole)
    assert len(seen) == 4 * (whole.batches + 1) + 2 * (groups - 1) + 2 * (3 * groups - 1)
    for stop in (2 * (whole.batches + groups) + 2, 2 * (whole.batches + groups) + 3):
        broken, resumed = start(table(), **settings), start(table(), **settings)
        assert len([*itertools.islice(plmcmc.METHOD.run(broken, never), stop)]) == stop
        assert broken.stage_epoch == 2 and broken.piece in (2, 3) and "u" in broken.work
        resumed.restore(broken.parts())
        events(plmcmc.METHOD, resumed)
        for stem, tensors in whole.parts().items():
            again = resumed.parts()[stem]
            assert tensors.keys() == again.keys()
            assert all(torch.equal(value, again[name]) for name, value in tensors.items())


def test_without_holes_it_is_complete() -> None:
    data = table(share=0.0)
    states = [start(data)]
    flow = Flow.build(FlowConfig(**SMALL), Layout.plain(3)).double()
    config = COMPLETE.Config.model_validate({"epochs": 4, "optim": {"batch_size": 64}})
    states.append(COMPLETE.init(flow, data, config, torch.Generator().manual_seed(1)))
    for state in states:
        events(COMPLETE, state)
    one, other = (state.model.state_dict() for state in states)
    assert all(torch.equal(value, other[name]) for name, value in one.items())


def test_fully_missing_rows_hold_draws_of_the_flow() -> None:
    state = start(table(), steps=((0, 2),))
    events(plmcmc.METHOD, state)
    cells = filled(state)[:, 0]
    assert bool(torch.isfinite(cells).all()) and float(cells.std()) > 0


@pytest.mark.parametrize("key", [{"first": 1.5}, {"steps": ()}, {"steps": ((0.0, 0),)}, {"auxiliary_std": 0.0}])
def test_settings_that_cannot_be(key: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(key))):
        PlmcmcConfig.model_validate(key)
