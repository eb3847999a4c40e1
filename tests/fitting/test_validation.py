"""Selection by a method's own loss: what it is worth, and that it goes on exactly after an interruption."""

from types import SimpleNamespace

import pytest
import torch

from tests.linear_vae import linear_vae
from tests.methods.test_vgi import fit, toy
from vgi_cli.data import make_table
from vgi_cli.fitting.rows import Rows
from vgi_cli.fitting.validation import ObjectiveValidator, make_validator, observed_box
from vgi_cli.methods.bounds import MIWAE, MVAE, MiwaeConfig
from vgi_cli.methods.vgi import vgi

D, L = 4, 2


def fitted(method, config, spoilt=True):
    """A fit that has arrived at the linear autoencoder, its encoder apart; its law; 300 complete rows of the law."""
    exact, law = linear_vae(D, L, torch.Generator().manual_seed(0))
    model, _ = linear_vae(D, L, torch.Generator().manual_seed(0), exact_encoder=not spoilt)
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        z = torch.randn(300, L, generator=g, dtype=torch.float64)
        x = exact.decode(z).draw(torch.randn(300, D, generator=g, dtype=torch.float64))
    rows = make_table(x, torch.zeros_like(x, dtype=torch.bool))
    state = method.init(exact, rows, config, torch.Generator().manual_seed(2))
    state.model = model
    return state, law, rows


def validator(method, rows, epochs, every=1):
    return ObjectiveValidator(method.tune, rows, observed_box(rows), every, epochs, 0)


@pytest.mark.parametrize(
    ("method", "config", "error"),
    [
        pytest.param(MVAE, MVAE.Config(optim={"lr": 0.02, "batch_size": 50}), 0.05, marks=pytest.mark.slow),
        (MIWAE, MiwaeConfig(samples=20, optim={"lr": 0.02, "batch_size": 50}), 0.02),
    ],
)
def test_the_loss_of_a_tuned_encoder_is_the_log_likelihood(method, config, error):
    """The linear autoencoder's posterior is an encoder: on complete rows the bound closes. Untuned it is far away."""
    state, law, rows = fitted(method, config)
    exact = float(law.log_prob(rows.x).mean())
    assert abs(validator(method, rows, 80).score(state) - exact) < error
    assert validator(method, rows, 1).score(state) < exact - 2 * error


def test_a_worse_model_scores_less():
    config = MVAE.Config(optim={"lr": 0.02, "batch_size": 50})
    state, _, rows = fitted(MVAE, config)
    good = validator(MVAE, rows, 20).score(state)
    with torch.no_grad():
        state.model.decoder.outlet.bias += 1.0
    assert validator(MVAE, rows, 20).score(state) < good - 0.5


def test_bounds_are_compared_with_the_same_random_numbers():
    config = MVAE.Config(optim={"lr": 0.02, "batch_size": 50})
    state, _, rows = fitted(MVAE, config)
    one = validator(MVAE, rows, 2)
    assert one.score(state) == one.score(state)


def test_chains_go_on_and_so_they_do_after_a_restart():
    state, rows = fit(toy()), toy(200, seed=9)
    whole, before, after = (ObjectiveValidator(vgi.METHOD.tune, rows, observed_box(rows), 1, 2, 0) for _ in range(3))
    scores = [whole.score(state), whole.score(state)]
    assert scores[0] != scores[1]
    assert before.score(state) == scores[0]
    after.restore(before.tensors())
    assert after.score(state) == scores[1]


def test_the_tuning_grows_with_the_rows_seen_since_the_last():
    table = make_table(torch.zeros(1000, 2), torch.zeros(1000, 2, dtype=torch.bool))
    held = Rows.of(table.rows(torch.arange(100)))
    seen = []

    def tune(state, rows, inside, generator, epochs):
        seen.append(epochs)
        ends = iter(())
        return SimpleNamespace(chains=SimpleNamespace(tensors=dict)), ends

    method = SimpleNamespace(algorithm=SimpleNamespace(tune=tune))
    for epochs in (50, 1000):
        recipe = SimpleNamespace(select="objective", method=method, seed=0)
        made = make_validator(recipe, table, held, torch.zeros(100), epochs)
        with pytest.raises(ValueError, match="mean"):  # the double has no epochs
            made.score(None)
    assert seen == [4, 20]  # 0.1 of 1 and of 20 epochs of ten times as many rows
