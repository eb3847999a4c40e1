"""VGI: the objective's oracles, exact resume, and fits that reach known optima."""

import copy
import functools

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from tests.oracles import PlainNormal
from tests.selection import covering, first
from vgi_cli.chains.moves import Moves, OfRows, sweep, sweep_noise, uniform
from vgi_cli.chains.store.packed import Chains
from vgi_cli.chains.store.placement import MemoryBudget
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.data import make_table
from vgi_cli.layout import Blocks
from vgi_cli.methods import start
from vgi_cli.methods.base import EpochEnd, Resources, StepEnd
from vgi_cli.methods.loop import Stage
from vgi_cli.methods.optimisation import adam, optimiser_tensors, restore_optimiser
from vgi_cli.methods.vgi import vgi
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.objective import Estimate, draw_noise, vgi_objective
from vgi_cli.methods.vgi.warm_ups import ALL_UP_TO, scored, warm_up_loss
from vgi_cli.models.base import Model, ModelConfig

SIGMA = torch.tensor([[1.0, 0.7, -0.3], [0.7, 1.5, 0.2], [-0.3, 0.2, 0.8]], dtype=torch.float64)


class GaussianConfig(ModelConfig):
    pass


class Gaussian(Model):
    """A full Gaussian with a free mean and Cholesky factor: the smallest model with correlations."""

    Config = GaussianConfig
    learning_rate = 0.05

    def __init__(self, D):
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(D, dtype=torch.float64))
        self.factor = nn.Parameter(torch.eye(D, dtype=torch.float64))

    @classmethod
    def build(cls, config, D):
        return cls(D)

    def initialise(self, x, generator):
        pass

    def scale(self):
        return self.factor.tril(-1) + self.factor.diagonal().exp().diag()

    def log_prob(self, x):
        return torch.distributions.MultivariateNormal(self.mean, scale_tril=self.scale()).log_prob(x)

    def sample(self, n, generator=None):
        return self.mean + torch.randn(n, len(self.mean), generator=generator, dtype=torch.float64) @ self.scale().T


class ExactConditionals(Conditionals):
    """p's own conditionals (standard kernel), with log q at the draw, not the entropy."""

    noise_width = fresh_width = 1
    extended = False

    def __init__(self, sigma):
        super().__init__(Blocks.columns(len(sigma)))
        self.precision = torch.linalg.inv(sigma)

    def law(self, x, missing, block, *, hidden=False):
        row, own = self.precision[block], self.precision.diagonal()[block]
        others = (row * x.view(len(x), *[1] * (block.ndim - 1), -1)).sum(-1) - own * self.at(x, block)
        return PlainNormal(-others / own, own.rsqrt().log())


def objective(q, x, missing, weight, n, M, g):
    estimate = Estimate(M)
    return vgi_objective(log_p, q, x, missing, weight, 1, draw_noise(q, n, estimate, x, g), estimate)


def log_p(x, missing):
    return torch.distributions.MultivariateNormal(x.new_zeros(3), SIGMA).log_prob(x)


def rows(n, seed, share=0.5):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=g, dtype=torch.float64) @ torch.linalg.cholesky(SIGMA).T
    missing = torch.rand(n, 3, generator=g) < share
    return x, missing, g


def test_with_one_hole_and_exact_q_every_draw_gives_the_observed_log_likelihood():
    x, missing, g = rows(40, 0)
    missing[:] = False
    missing[torch.arange(40), torch.arange(40) % 3] = True
    expected = []
    for i in range(40):
        o = ~missing[i]
        marginal = torch.distributions.MultivariateNormal(x.new_zeros(2), SIGMA[o][:, o])
        expected.append(marginal.log_prob(x[i, o]))
    for M in (1, 2):
        for i in range(40):
            one = objective(ExactConditionals(SIGMA), x[i : i + 1], missing[i : i + 1], x.new_ones(1), 1, M, g)
            torch.testing.assert_close(one, expected[i], rtol=1e-10, atol=1e-10)


def test_a_complete_row_enters_once_with_its_log_density():
    x, missing, g = rows(12, 1)
    missing[:] = False
    missing[:5, 0] = True
    weight = torch.rand(12, generator=g, dtype=torch.float64)
    q = ExactConditionals(SIGMA)
    both = objective(q, x, missing, weight, 5, 2, torch.Generator().manual_seed(0))
    holes = objective(q, x[:5], missing[:5], weight[:5], 5, 2, torch.Generator().manual_seed(0))
    torch.testing.assert_close(both, holes + (weight[5:] * log_p(x[5:], None)).sum())


def test_objective_averages_over_the_holes_of_a_row():
    """Mean over many estimates equals the mean over missing j of E log p - log q, from one call with all blocks."""
    x, missing, g = rows(1, 2)
    missing[:] = torch.tensor([[True, True, False]])
    q = ExactConditionals(SIGMA)
    many = x.expand(20_000, 3), missing.expand(20_000, 3), x.new_full((20_000,), 1 / 20_000)
    one, all_blocks = (objective(q, *many, 20_000, M, g) for M in (1, 3))
    torch.testing.assert_close(one, all_blocks, atol=0.02, rtol=0)


def test_warm_up_loss_is_that_of_algorithm_2_whatever_choice_of_columns_estimates_it():
    """Each column counts alike, however few rows have it: J_phi = sum_j of the weighted mean over the rows with x_j,
    here divided by the number of columns. Of M < 3 columns a row the mean over choices is the same."""
    x, missing, g = rows(60, 3)
    missing |= torch.rand(60, 3, generator=g) < torch.tensor([0.6, 0.3, 0.0])
    x, missing = x[~missing.all(1)], missing[~missing.all(1)]
    weight = torch.rand(len(x), generator=g, dtype=torch.float64)
    q = ExactConditionals(SIGMA)
    log_q = q.law(x, ~missing, torch.arange(3).expand(len(x), 3)).log_prob(x)
    share = weight[:, None] * ~missing
    expected = -((share * log_q).sum(0) / share.sum(0)).mean()
    for seed in range(3):
        got = warm_up_loss(q, x, missing, weight, 3, uniform((len(x), 3), x, torch.Generator().manual_seed(seed)))
        torch.testing.assert_close(got, expected)
    for M in (1, 2):
        some = torch.stack([warm_up_loss(q, x, missing, weight, M, uniform((len(x), 3), x, g)) for _ in range(2000)])
        assert abs(float(some.mean() - expected)) < 4 * float(some.std() / 2000**0.5)
        assert float(some.std()) > 1e-3
    missing[:, 0] = True  # a column that the batch lacks takes no part
    expected = -((share * log_q).sum(0) / share.sum(0))[1:].mean()
    whole = ~missing.all(1)
    got = warm_up_loss(q, x[whole], missing[whole], weight[whole], 3, uniform((int(whole.sum()), 3), x, g))
    torch.testing.assert_close(got, expected)


def test_few_columns_are_all_scored_in_the_warm_up_and_of_many_some():
    assert scored(ALL_UP_TO, Estimate(1)) == ALL_UP_TO and scored(ALL_UP_TO + 1, Estimate(1)) == 2
    assert scored(100, Estimate(5)) == 5 and scored(100, Estimate(1, 8)) == 8


def test_gibbs_updates_count_and_box():
    x, missing, g = rows(300, 4)
    missing[:, 0] |= ~missing.any(1)
    q = ExactConditionals(SIGMA)
    two, three = (Moves(metropolis=False, path=False, G=G) for G in (2, 3))
    noise = [sweep_noise(q, 300, moves, x, g) for moves in (two, three)]
    free = sweep(noise[0], q, x, missing, OfRows(log_p), two)
    assert float(free.tried.sum()) == 2 * 300  # also of the rows with one hole
    assert torch.equal(free.tried, free.accepted)
    assert torch.equal(free.x[~missing], x[~missing])
    inside = torch.tensor([[-0.5] * 3, [0.5] * 3], dtype=torch.float64)
    filled = torch.where(missing, 0.0, x)
    boxed = sweep(noise[1], q, filled, missing, OfRows(log_p), three, box=inside)
    assert bool((boxed.x[missing].abs() <= 0.5).all()) and float(boxed.accepted.sum()) < float(boxed.tried.sum())


def toy(N=400, seed=0, share=0.3):
    x, missing, _ = rows(N, seed, share)
    return make_table(x, missing)


SMALL = {"imputations": 2, "hidden": (4,), "trunk": (6,), "epochs": 2}
QUICK = {"warmup_conditionals": 1, "warmup_model": 1, "batch_size": 100}


def fit(table, steps=None, state=None, seed=0, **settings):
    optim = QUICK | settings.pop("optim", {})
    config = VgiConfig(**(SMALL | settings), optim=optim)
    if state is None:
        state = vgi.METHOD.init(Gaussian(table.D), table, config, torch.Generator().manual_seed(seed))
    for i, event in enumerate(vgi.run(state)):
        if steps is not None and i + 1 == steps:
            break
        assert isinstance(event, (StepEnd, EpochEnd))
    return state


VARIANTS = [
    {"accept": "gibbs", "kernel": "extended"},
    {"accept": "metropolis", "conditional": "spline", "layout": "independent"},
    {"accept": "metropolis", "scan": "path", "kernel": "extended", "blocks_per_row": 2},
    {"gradient": "accepted", "optim": {"average": 0.5, "schedule": "constant", "clip": None}},
    {"scan": "block", "block_columns": 2, "kernel": "extended"},
    {"scan": "block", "block_columns": 2, "accept": "gibbs", "blocks_per_row": 2},
]


@functools.cache
def whole_fit(number):
    """What a fit by one of VARIANTS ends with that is not stopped."""
    return fit(toy(), **copy.deepcopy(VARIANTS[number])).parts()


@covering(pytest.mark.parametrize("stop", [3, 9, 14]), pytest.mark.parametrize("number", range(len(VARIANTS))))
def test_resuming_gives_bit_for_bit_what_not_stopping_gives(number, stop):
    table, settings = toy(), VARIANTS[number]
    broken = fit(table, steps=stop, **copy.deepcopy(settings))
    saved = broken.parts()
    fresh = vgi.METHOD.init(Gaussian(3), table, broken.config, torch.Generator().manual_seed(99))
    fresh.restore(saved)
    resumed = fit(table, state=fresh)
    for stem, tensors in whole_fit(number).items():
        assert tensors.keys() == resumed.parts()[stem].keys()
        for name, value in tensors.items():
            assert torch.equal(value, resumed.parts()[stem][name]), (stem, name)


@pytest.mark.parametrize("stop", first(1, [9, 3, 14]))
def test_chains_elsewhere_change_nothing_and_can_move_in_the_middle_of_an_epoch(stop):
    table = toy()
    elsewhere = Resources(MemoryBudget(None, 0, lambda lines, K, dtype: torch.zeros(lines, K, dtype=dtype)))
    config = VgiConfig(**SMALL, optim=QUICK)
    whole = fit(table)
    broken = vgi.METHOD.init(Gaussian(3), table, config, torch.Generator().manual_seed(0), elsewhere)
    assert broken.chains.place == "disk"
    fit(table, steps=stop, state=broken)
    fresh = vgi.METHOD.init(Gaussian(3), table, config, torch.Generator().manual_seed(99), elsewhere)
    fit(table, steps=5, state=fresh)
    fresh.restore(broken.parts())
    beside = vgi.METHOD.init(Gaussian(3), table, config, torch.Generator().manual_seed(99))
    beside.restore(broken.parts())
    for state in (broken, fresh, beside):
        fit(table, state=state)
        for stem, tensors in whole.parts().items():
            assert all(torch.equal(value, state.parts()[stem][name]) for name, value in tensors.items()), stem


def test_the_model_is_initialised_from_whole_chains_or_rows_of_the_first(monkeypatch):
    table = toy(41)
    table.missing[7] = True
    state = fit(table)
    partly = ~table.missing.all(1)
    n = int(partly.sum())
    assert n < 41
    whole = torch.cat([state.chains.completed(k)[partly] for k in range(2)])
    for most, expected in ((1000, 2 * n), (2 * n, 2 * n), (2 * n - 1, n), (n, n)):
        monkeypatch.setattr(start, "INITIAL_ROWS", most)
        assert torch.equal(start.initial_rows(state.chains), whole[:expected])
    monkeypatch.setattr(start, "INITIAL_ROWS", n - 10)
    rows = start.initial_rows(state.chains)
    places = (rows[:, None] == whole[None, :n]).all(2).to(torch.int64).argmax(1)
    assert torch.equal(rows, whole[places]) and len(rows) == n - 10 and bool((places.diff() > 0).all())


def test_same_seed_same_fit_and_another_seed_another():
    a, b, c = (fit(toy(), seed=s).model.mean.detach() for s in (0, 0, 1))
    assert torch.equal(a, b) and not torch.equal(a, c)


def test_complete_table_gives_maximum_likelihood():
    x, missing, _ = rows(500, 5)
    table = make_table(x, torch.zeros_like(missing))
    state = fit(table, epochs=80, optim={"warmup_model": 5})
    torch.testing.assert_close(state.model.mean.detach(), x.mean(0), atol=5e-3, rtol=0)
    scale = state.model.scale().detach()
    torch.testing.assert_close(scale @ scale.T, x.T.cov(correction=0), atol=2e-2, rtol=0)


@pytest.mark.parametrize("gradient", ["objective", pytest.param("accepted", marks=pytest.mark.slow)])
def test_incomplete_fit_comes_close_to_the_truth(gradient):
    """KL to the truth within 0.02 at 2,000 rows, 30 % missing; column-wise imputation would stand near 0.1."""
    state = fit(toy(2000, 7), epochs=25, imputations=3, gradient=gradient, optim={"batch_size": 200})
    fitted = torch.distributions.MultivariateNormal(state.model.mean, scale_tril=state.model.scale())
    truth = torch.distributions.MultivariateNormal(torch.zeros(3, dtype=torch.float64), SIGMA)
    assert torch.distributions.kl_divergence(truth, fitted).item() < 0.02


def test_fully_missing_rows_do_not_enter():
    table = toy(200)
    extra = make_table(
        torch.cat([table.x, torch.zeros(50, 3, dtype=torch.float64)]),
        torch.cat([table.missing, torch.ones(50, 3, dtype=torch.bool)]),
    )
    state = fit(extra, imputations=40)
    assert state.rows_per_epoch == int((~table.missing.all(1)).sum())
    filled = torch.stack([state.chains.completed(k)[-50:] for k in range(40)]).reshape(-1, 3)  # draws from the model
    scale = state.model.scale().detach()
    error = 5 * ((scale @ scale.T).diagonal() / len(filled)).sqrt()
    assert bool(((filled.mean(0) - state.model.mean.detach()).abs() < error).all())
    assert bool((filled.std(0) / (scale @ scale.T).diagonal().sqrt() - 1).abs().max() < 0.1)


def test_acceptance_is_reported_per_column_and_stages_in_order():
    config = VgiConfig(**SMALL, optim=QUICK)
    state = vgi.METHOD.init(Gaussian(3), toy(), config, torch.Generator().manual_seed(0))
    ends = [event for event in vgi.run(state) if isinstance(event, EpochEnd)]
    assert [e.metrics["stage"] for e in ends] == ["warm_conditionals", "warm_model", "main", "main"]
    assert all(0.3 < rate <= 1 for rate in ends[-1].metrics["acceptance"])
    assert state.epoch == state.epochs == 2 and state.stage is Stage.MAIN


def test_unknown_setting_is_refused():
    with pytest.raises(ValidationError):
        VgiConfig(imputation=3)


def test_every_batch_has_its_share_and_an_epoch_every_row():
    table = toy(330)
    config = VgiConfig(**SMALL, optim=QUICK | {"batch_size": 32})
    state = vgi.METHOD.init(Gaussian(3), table, config, torch.Generator().manual_seed(0))
    sizes, seen = set(), []
    for position in range(state.batches):
        state.position = position
        batch = state.batch()
        sizes.add(len(batch.rows))
        seen += batch.rows.tolist()
    assert sorted(seen) == state.incomplete.tolist()
    assert max(sizes) - min(sizes) <= 1
    assert isinstance(state.chains, Chains)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_batch_is_without_a_row(size: int) -> None:
    """Of single rows a batch has an incomplete row or a complete one at least."""
    config = VgiConfig(**SMALL, optim=QUICK | {"batch_size": size})
    state = vgi.METHOD.init(Gaussian(3), toy(41), config, torch.Generator().manual_seed(0))
    seen = []
    for position in range(state.batches):
        state.position = position
        seen.append(len(state.batch().x))
    assert min(seen) > 0 and sum(state.batch().weight.isfinite()) > 0
    assert len(state.incomplete) and len(state.complete)


def test_an_average_starts_anew_when_more_epochs_are_asked_for():
    begun = fit(toy())
    before = begun.averaged
    assert before > 0
    config = VgiConfig(**(SMALL | {"epochs": 10 * begun.epochs}), optim=QUICK)
    state = vgi.METHOD.init(Gaussian(3), toy(), config, torch.Generator().manual_seed(0))
    state.restore(begun.parts())
    events = vgi.run(state)
    next(events)
    state.parts()  # publishes
    assert state.averaged == 0 and torch.equal(state.model.mean, state.theta.mean)
    list(events)
    assert 0 < state.averaged <= 10 * before + 1


def test_step_counts_are_restored_where_the_optimiser_keeps_them():
    """Fused Adam wants them beside the parameters (`meta` stands in for a GPU), the plain one on the CPU."""
    state = fit(toy())
    saved = {k: v for k, v in state.parts()["state"].items() if k.startswith("optim_theta/")}
    for fused, device in ((True, "meta"), (False, "cpu")):
        optimiser = torch.optim.Adam(nn.ParameterList(Gaussian(3).to("meta").parameters()))
        optimiser.defaults["fused"] = fused
        restore_optimiser("optim_theta", optimiser, saved)
        moments = next(iter(optimiser.state.values()))
        assert moments["step"].device.type == device and moments["exp_avg"].device.type == "meta"


@pytest.mark.parametrize("damage", ["lacks", "shape", "steps"])
def test_moments_that_are_not_those_of_an_optimiser_are_refused(damage: str) -> None:
    module = torch.nn.Linear(2, 1)
    optimiser = adam(module, 1e-3, amsgrad=True)
    module(torch.ones(3, 2)).sum().backward()
    optimiser.step()
    saved = dict(optimiser_tensors("optim", optimiser))
    restore_optimiser("optim", optimiser, saved)
    if damage == "lacks":
        del saved["optim/0/exp_avg"]
    else:
        name = "optim/0/step" if damage == "steps" else "optim/1/exp_avg_sq"
        saved[name] = torch.ones(4)
    with pytest.raises(
        ValueError, match=r"moments of the optimiser 'optim', parameter [01], are not those of its steps"
    ):
        restore_optimiser("optim", optimiser, saved)
