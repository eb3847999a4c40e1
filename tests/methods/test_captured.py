"""Captured and compiled steps: when they are taken, that they change nothing, and what happens where they fail."""

import pytest
import torch
from torch.utils._pytree import tree_leaves

from tests.methods.test_vgi import SMALL, fit, toy
from vgi_cli.chains import captured
from vgi_cli.data import TensorTable, make_table
from vgi_cli.errors import Interrupted
from vgi_cli.layout import Layout
from vgi_cli.methods.base import Resources, StepEnd
from vgi_cli.methods.loop import Stage
from vgi_cli.methods.vgi import speed, vgi
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.models.flows.autoregressive import AutoregressiveFlow
from vgi_cli.models.flows.base import FlowConfig
from vgi_cli.models.flows.coupling import Flow
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig

STEPS = 20


def state_of(table: TensorTable, model=None, compile="off", said=None, **settings):
    config = VgiConfig(
        **(SMALL | {"epochs": 10} | settings), optim={"batch_size": 100, "warmup_conditionals": 0, "warmup_model": 0}
    )
    model = FactorAnalysis.build(FaConfig(factors=1), table.layout) if model is None else model
    model = model.to(table.x)
    resources = Resources(compile=compile, warn=[].append if said is None else said.append)
    state = vgi.METHOD.init(model, table, config, torch.Generator().manual_seed(0), resources)
    state.enter(Stage.MAIN)
    return state


def take_steps(state, count=STEPS):
    events = vgi.run(state)
    while count:
        count -= isinstance(next(events), StepEnd)
    return state


def assert_equal_states(one, two, rtol):
    for module in ("theta", "q"):
        for a, b in zip(getattr(one, module).parameters(), getattr(two, module).parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=rtol, atol=rtol)
    torch.testing.assert_close(one.chains.tensors()["values"], two.chains.tensors()["values"], rtol=rtol, atol=rtol)


def test_nothing_is_compiled_on_a_cpu_unless_asked_for():
    said = []
    for mode in ("auto", "off"):
        assert state_of(toy(), compile=mode, said=said, epochs=10_000).compiled == "off"
    assert said == []


def test_a_density_that_cannot_be_compiled_is_taken_as_it_is_and_said(monkeypatch):
    def refuse(*_, **__):
        def raiser(x):
            raise RuntimeError("no working C++ compiler\nmore")

        return raiser

    monkeypatch.setattr(captured.torch, "compile", refuse)
    said = []
    state = state_of(toy(), compile="on", said=said)
    assert state.compiled == "off"
    assert said == ["the density is not compiled: no working C++ compiler"]
    assert_equal_states(take_steps(state, 5), take_steps(state_of(toy()), 5), rtol=0)


def test_a_step_is_a_function_of_its_inputs():
    """What is captured may not hide randomness: the same inputs on equal states give equal states."""
    states = []
    for seed in (1, 2):
        torch.manual_seed(seed)  # the global stream must not matter
        states.append(take_steps(state_of(toy())))
    assert_equal_states(*states, rtol=0)


def test_a_step_is_two_functions_that_are_recorded_once_each(monkeypatch):
    """What is called by a stand-in for the graphs, step after step, are the same two functions of tensors."""

    class Counted:
        def __init__(self, body, *_):
            self.body, self.calls = body, 0

        def __call__(self, *inputs):
            assert all(isinstance(tensor, torch.Tensor) for tensor in tree_leaves(inputs))
            self.calls += 1
            return self.body(*inputs)

    monkeypatch.setattr(speed, "CapturedSteps", Counted)
    state = state_of(toy())
    state.speed = state.speed._replace(call=speed.Captured(print, state.chains.x.device))
    take_steps(state)
    assert [steps.calls for steps in state.speed.call.steps.values()] == [STEPS, STEPS]
    assert_equal_states(state, take_steps(state_of(toy())), rtol=0)


def test_published_parameters_are_those_in_training_until_an_average_begins():
    state = fit(toy(), epochs=2, optim={"average": 0.0})
    for a, b in zip(state.model.parameters(), state.theta.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_density_changes_nothing_but_rounding():
    said = []
    state = state_of(toy(), compile="on", said=said)
    assert state.compiled == "the density is compiled" and said == []
    assert_equal_states(take_steps(state), take_steps(state_of(toy())), rtol=1e-9)


MIXED = {
    "flow": lambda layout: Flow(FlowConfig(steps=1, hidden=8, bins=4, level_hidden=8, ordinal="cumulative"), layout),
    "flow-ar": lambda layout: AutoregressiveFlow(FlowConfig(steps=1, hidden=8, bins=4, level_hidden=8), layout),
    "mixture": lambda layout: GaussianMixture.build(MixtureConfig(components=2), layout),
    "shifted": lambda layout: GaussianMixture.build(MixtureConfig(components=2, dependence="linear"), layout),
}


def mixed_rows(N=64):
    """Rows of two numbers and three kinds of levels."""
    g = torch.Generator().manual_seed(0)
    layout = Layout.of("abcde", levels=(0, 3, 0, 2, 4), ordered=(4,))
    x = torch.randn(N, 5, generator=g)
    for i in layout.discrete:
        x[:, i] = torch.randint(layout.levels[i], (N,), generator=g).float()
    return layout, x, g


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", MIXED)
def test_a_density_of_numbers_and_levels_compiles(model):
    """Also for numbers of rows that it was not tried out on."""
    layout, x, g = mixed_rows()
    made = MIXED[model](layout)
    made.initialise(x, g)
    said = []
    compiled = captured.compiled_density(made, made.log_prob, x, said.append)
    assert compiled != made.log_prob and said == []
    for n in (64, 17):
        torch.testing.assert_close(compiled(x[:n]), made.log_prob(x[:n]), atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_flow_compiles():
    """Where a spline's own derivatives take part: torch.compile does not take every argument of theirs."""
    g = torch.Generator().manual_seed(0)
    x, flow = torch.randn(64, 4, generator=g), Flow(FlowConfig(steps=2, hidden=16), Layout.plain(4))
    flow.initialise(x, g)
    said = []
    compiled = captured.compiled_density(flow, flow.log_prob, x, said.append)
    assert compiled != flow.log_prob and said == []
    torch.testing.assert_close(compiled(x), flow.log_prob(x), atol=1e-5, rtol=1e-5)


def test_a_signal_while_compiling_stops_and_is_no_failed_compilation(monkeypatch):
    def stopped(*_, **__):
        def run(x):
            try:
                raise Interrupted("stopped by SIGTERM", 143)
            except Interrupted as error:
                raise RuntimeError(f"backend failed: {error}") from None  # as torch.compile wraps what happens in it

        return run

    monkeypatch.setattr(torch, "compile", stopped)
    said = []
    with pytest.raises(Interrupted, match="SIGTERM"):
        state_of(toy(), compile="on", said=said)
    assert said == []


@pytest.mark.gpu
@pytest.mark.parametrize("accept", ["gibbs", "metropolis"])
@pytest.mark.parametrize(
    ("conditional", "family"), [("gaussian", Flow), ("spline", Flow), ("spline", AutoregressiveFlow)]
)
def test_captured_steps_change_nothing_but_rounding(accept, conditional, family):
    table = toy()
    table = table.to(device="cuda")
    said = []
    states = []
    for mode in ("on", "off"):
        flow = family.build(FlowConfig(steps=2, hidden=8, bins=4), table.layout)
        state = state_of(table, flow, mode, said, accept=accept, conditional=conditional, epochs=100)
        states.append(take_steps(state))
    assert said == []
    assert [steps.recorded > 0 for steps in states[0].speed.call.steps.values()] == [True, True]
    assert_equal_states(*states, rtol=1e-8)


@pytest.mark.gpu
@pytest.mark.parametrize("model", MIXED)
def test_captured_steps_of_numbers_and_levels_change_nothing_but_rounding(model):
    layout, x, g = mixed_rows(400)
    table = make_table(x.double(), torch.rand(x.shape, generator=g) < 0.3, layout).to(device="cuda")
    said = []
    states = []
    for mode in ("on", "off"):
        torch.manual_seed(0)  # networks begin there
        made = MIXED[model](layout)
        states.append(take_steps(state_of(table, made, mode, said, epochs=100)))
    assert said == []
    assert [steps.recorded > 0 for steps in states[0].speed.call.steps.values()] == [True, True]
    assert_equal_states(*states, rtol=1e-8)


@pytest.mark.gpu
def test_steps_of_the_warm_ups_are_captured_too():
    table = toy().to(device="cuda")
    said = []
    states = []
    for mode in ("on", "off"):
        optim = {"batch_size": 100, "warmup_conditionals": 8, "warmup_model": 8}
        config = VgiConfig(**(SMALL | {"epochs": 100}), optim=optim)
        flow = Flow.build(FlowConfig(steps=2, hidden=8, bins=4), table.layout).to(table.x)
        resources = Resources(compile=mode, warn=said.append)
        states.append(vgi.METHOD.init(flow, table, config, torch.Generator().manual_seed(0), resources))
        take_steps(states[-1], 16 * states[-1].batches)
        assert states[-1].stage is Stage.WARM_MODEL
        take_steps(states[-1], STEPS)
        assert states[-1].stage is Stage.MAIN
    assert said == []
    assert [steps.recorded > 0 for steps in states[0].speed.call.steps.values()] == [True] * 4
    assert_equal_states(*states, rtol=1e-8)


@pytest.mark.gpu
def test_a_step_that_waits_for_the_device_is_not_captured_and_said():
    table = toy().to(device="cuda")
    said = []
    state = state_of(table, compile="on", said=said, epochs=100)
    log_p = state.log_p
    state.log_p = lambda x, missing: log_p(x, missing) * (1.0 + 0.0 * float(x.detach().sum()))
    take_steps(state)
    assert len(said) == 1 and said[0].startswith("steps are not captured as CUDA graphs")


@pytest.mark.gpu
def test_a_step_on_a_gpu_is_that_on_a_cpu():
    """Noise differs between devices, so both get the CPU's."""
    table = toy()
    states = [state_of(table), state_of(table.to(device="cuda"))]
    for state in states:
        batch = state.batch()
        g = torch.Generator().manual_seed(5)
        n = len(batch.rows) * state.chains.K
        like = batch.x.cpu()
        of, target = state.inference, state.target
        moves, fresh = target.sweep_noise(of, n, like, g), target.draw_noise(of, n, len(like), like, g)
        moves, fresh = (type(noise)(*(part.to(batch.x.device) for part in noise)) for noise in (moves, fresh))
        order = torch.arange(len(batch.rows), device=table.x.device)
        batch = state.chains.batch(state.incomplete[order.to(state.incomplete.device)], state.complete[:0])
        x = state.update(batch.x, batch.missing, moves)
        inputs = (x, batch.missing, batch.weight, fresh)
        state.ascend(state.target.objective, state.optim_theta, state.optim_q, *inputs)
    for a, b in zip(states[0].theta.parameters(), states[1].theta.parameters(), strict=True):
        torch.testing.assert_close(a, b.cpu(), rtol=1e-8, atol=1e-8)
