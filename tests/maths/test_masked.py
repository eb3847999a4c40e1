"""Masked networks: what an output may see, what it does see, and columns one after the other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from vgi_cli.maths.masked import MaskedLinear, MaskedResidualNet, unit_degrees

SIZES = [(1, 4), (2, 3), (3, 8), (6, 5), (9, 3), (4, 1)]  # columns and hidden units: more, as many, fewer


def net(D: int, hidden: int, blocks: int = 2, dropout: float = 0.0) -> MaskedResidualNet:
    """Every parameter moved, those under a mask too."""
    out = MaskedResidualNet(D, hidden, 2, blocks, dropout=dropout).double()
    generator = torch.Generator().manual_seed(0)
    out.initialise(generator)
    with torch.no_grad():
        for parameter in out.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return out.eval()


def rows(D: int, R: int = 7) -> Tensor:
    return torch.randn(D, R, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize(("D", "hidden"), SIZES)
@pytest.mark.parametrize("blocks", [0, 2])
def test_outputs_see_earlier_columns_only(D: int, hidden: int, blocks: int) -> None:
    one = net(D, hidden, blocks)
    # [each, D outputs, D inputs], any row
    jacobians = [torch.autograd.functional.jacobian(lambda x: one(x[:, None])[..., 0], x) for x in rows(D, 20).t()]
    sees = torch.stack(jacobians).abs().amax((0, 1))
    assert bool((sees.triu() == 0).all())
    if hidden >= D - 1:  # then there is a unit of every degree, and every earlier column is seen
        assert bool((sees.tril(-1) > 0).sum() == D * (D - 1) // 2)
    elif hidden > 1:
        assert bool((sees[-1, :-1] > 0).all())


@pytest.mark.parametrize(("D", "hidden"), [*SIZES, (43, 32), (43, 64), (560, 20)])
def test_degrees_are_ascending_and_even(D: int, hidden: int) -> None:
    degrees = unit_degrees(D, hidden)
    assert degrees.shape == (hidden,) and int(degrees[0]) == 1 and bool((degrees.diff() >= 0).all())
    if D > 1 and hidden > 1:
        assert int(degrees[-1]) == D - 1
    counts = torch.bincount(degrees, minlength=D)[1:]
    assert int(counts.max() - counts.min()) <= 1


@pytest.mark.parametrize(("D", "hidden"), SIZES)
@pytest.mark.parametrize("blocks", [0, 2])
def test_columns_one_after_the_other_agree_with_one_pass(D: int, hidden: int, blocks: int) -> None:
    one, target = net(D, hidden, blocks), rows(D)
    # x_i = target_i - first output_i * sin(second output_i), each from the columns before
    X = one.solve(lambda i, outputs: target[i] - outputs[0] * outputs[1].sin())
    outputs = one(X)
    torch.testing.assert_close(X + outputs[0] * outputs[1].sin(), target, atol=1e-10, rtol=1e-10)


def test_solving_can_be_differentiated() -> None:
    one = net(4, 5)
    target = rows(4, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: one.solve(lambda i, o: t[i] - o[0].tanh()), (target,))


def test_masked_weights_neither_act_nor_learn() -> None:
    layer = MaskedLinear(torch.tensor([[True, False, True], [False, False, False]])).double()
    layer.initialise(torch.Generator().manual_seed(0))
    X = rows(3)
    before = layer(X)
    before.square().sum().backward()
    assert torch.equal(layer.weight.grad != 0, layer.mask != 0)  # type: ignore[arg-type]
    with torch.no_grad():
        layer.weight.add_(5 * (1 - layer.mask))
    assert torch.equal(layer(X), before)
    assert set(layer.state_dict()) == {"weight", "bias"}


def test_weights_start_by_the_number_of_inputs_that_are_left() -> None:
    mask = torch.ones(2, 400, dtype=torch.bool)
    mask[0, 4:] = False
    layer = MaskedLinear(mask)
    layer.initialise(torch.Generator().manual_seed(0))
    few, many = layer.weight.detach().abs().amax(1).tolist()
    assert 0.45 < few <= 0.5 and 0.045 < many <= 0.05


def test_dropout_acts_in_training_and_never_in_solve() -> None:
    one, target = net(5, 16, dropout=0.5), rows(5)
    expected, expected_pass = one.solve(lambda i, outputs: target[i] - outputs[0]), one(target)
    one.train()
    assert torch.equal(one.solve(lambda i, outputs: target[i] - outputs[0]), expected)
    assert not torch.equal(one(target), expected_pass)
    assert not torch.equal(one(target), one(target))


def test_initialise_depends_on_the_generator_alone() -> None:
    states = []
    for noise, seed in ((1, 0), (2, 0), (3, 9)):
        torch.manual_seed(noise)
        before = torch.get_rng_state()
        one = MaskedResidualNet(4, 8, 3, 1, dropout=0.2)
        one.initialise(torch.Generator().manual_seed(seed))
        one.train()(rows(4).float())
        assert torch.equal(torch.get_rng_state(), before)
        states.append(one.state_dict())
    first, second, other = states
    assert all(torch.equal(value, second[key]) for key, value in first.items())
    assert not torch.equal(first["inlet.weight"], other["inlet.weight"])
