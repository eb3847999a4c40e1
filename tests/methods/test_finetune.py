"""Algorithm 6: the model stays, a copy of the conditionals adapts, the first epoch is boxed."""

import torch

from tests.methods.test_vgi import fit, toy
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.vgi import finetune

WIDE = torch.tensor([[-100.0] * 3, [100.0] * 3], dtype=torch.float64)


def tune(fitted, table, epochs, inside=WIDE, seed=0, state=None, steps=None):
    if state is None:
        generator = torch.Generator().manual_seed(seed)
        state = finetune.init(fitted.model, fitted.q, table, fitted.config, generator, epochs)
    ends = []
    for i, event in enumerate(finetune.run(state, inside)):
        if isinstance(event, EpochEnd):
            ends.append(event)
        if steps is not None and i + 1 == steps:
            break
    return state, ends


def test_only_a_copy_of_the_conditionals_changes():
    fitted = fit(toy())
    before = {stem: fitted.parts()[stem] for stem in ("model", "conditionals")}
    state, _ = tune(fitted, toy(200, seed=9), 2)
    after = fitted.parts()
    for stem, tensors in before.items():
        assert all(torch.equal(value, after[stem][name]) for name, value in tensors.items())
    tuned = state.parts()
    assert all(torch.equal(value, tuned["model"][name]) for name, value in before["model"].items())
    assert any(not torch.equal(value, tuned["conditionals"][name]) for name, value in before["conditionals"].items())
    assert tuned["imputations"]["values"].shape == (int(toy(200, seed=9).missing.sum()), 2)


def test_the_objective_improves():
    fitted = fit(toy(), epochs=1)
    _, ends = tune(fitted, toy(400, seed=9), 15)
    last = sum(e.metrics["objective"] for e in ends[-3:]) / 3
    assert last > ends[0].metrics["objective"] + 0.01


def test_proposals_of_the_first_epoch_are_boxed():
    fitted = fit(toy())
    table = toy(300, seed=3)
    table = table.rows(~table.missing.all(1))  # rows without an observed cell are drawn from the model, freely
    low, high = table.x.min() * 0.2, table.x.max() * 0.2
    inside = torch.stack([low.expand(3), high.expand(3)])
    state = finetune.init(fitted.model, fitted.q, table, fitted.config, torch.Generator().manual_seed(0), 1)
    state.chains.tensors()["values"][:] = 0.0
    list(finetune.run(state, inside))
    values = state.chains.tensors()["values"]
    assert bool(((values >= low) & (values <= high)).all())
    free = finetune.init(fitted.model, fitted.q, table, fitted.config, torch.Generator().manual_seed(0), 1)
    list(finetune.run(free, WIDE))
    assert bool((free.chains.tensors()["values"].abs() > high).any())


def test_resuming_gives_bit_for_bit_what_not_stopping_gives():
    fitted, table = fit(toy()), toy(300, seed=3)
    whole, _ = tune(fitted, table, 3)
    broken, _ = tune(fitted, table, 3, steps=5)
    fresh, _ = tune(fitted, table, 3, seed=5, steps=1)
    fresh.restore(broken.parts())
    resumed, _ = tune(fitted, table, 3, state=fresh)
    for stem, tensors in whole.parts().items():
        assert all(torch.equal(value, resumed.parts()[stem][name]) for name, value in tensors.items()), stem
