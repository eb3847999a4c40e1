"""The compiled networks against plain products in float64, which are the truth here; and when they are used."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.maths.test_compiled import assert_loaded_as_compiled, draws
from vgi_cli import fast
from vgi_cli.conditionals.networks.heads import HeadNetwork
from vgi_cli.conditionals.networks.modulated import ModulatedNetwork
from vgi_cli.maths import compiled, networks
from vgi_cli.maths.networks import LARGEST, NetworkInputs, Networks, suit, through
from vgi_cli.maths.products import rounded

SLOPE = 0.01

pytestmark = pytest.mark.skipif(fast.numba_version() is None, reason="compiled loops are turned off, or not installed")


class Case(NamedTuple):
    """Networks of layers of these widths; of Q rows of D columns each for M networks; F: what the layers see beside x,
    0: x itself; per_row: h has a row for each of the M."""

    widths: tuple[int, ...]
    S: int = 5
    Q: int = 30
    M: int = 1
    D: int = 7
    F: int = 0
    skip: bool = False
    hide: bool = False
    active: bool = False
    per_row: bool = False


CASES = {
    "one layer": Case((3,)),
    "as the heads of a flow's conditionals": Case((32, 32, 32, 35), S=3, Q=300, F=128, skip=True),
    "several a row": Case((8, 8, 3), M=3, F=16, skip=True),
    "several a row, each with features": Case((8, 8, 3), M=3, F=16, skip=True, hide=True, per_row=True),
    "independent": Case((9, 4, 4, 2), M=2, skip=True, hide=True),
    "a trunk": Case((40, 20, 20), S=1, Q=170, active=True),
    "a trunk of one layer": Case((7,), S=1, active=True),
    "more networks than rows": Case((5, 2), S=40, Q=6, skip=True),
    "whole vectors": Case((16, 48, 32), S=2, Q=90, D=16),
}


def networks_of(case: Case) -> Networks:
    """Of random parameters, which want gradients."""
    sizes = [case.F or case.D, *case.widths]
    shapes = list(pairwise(sizes)) + [(case.D, case.widths[-1])] * case.skip
    made = [
        (
            draws(case.S, a, b, seed=2 * i, scale=a**-0.5).requires_grad_(),
            draws(case.S, 1, b, seed=2 * i + 1).requires_grad_(),
        )
        for i, (a, b) in enumerate(shapes)
    ]
    layers = made[: len(case.widths)]
    return Networks(layers, SLOPE, active=case.active, skip=made[-1] if case.skip else None)


def rows_of(case: Case) -> NetworkInputs:
    """Random rows, some of which have the same network."""
    j = torch.randint(case.S, (case.Q * case.M,), generator=torch.Generator().manual_seed(3))
    h = draws(len(j) if case.per_row else case.Q, case.F, seed=101).requires_grad_() if case.F else None
    return NetworkInputs(draws(case.Q, case.D, seed=100), h, j, case.hide)


def plain(of: Networks, rows: NetworkInputs) -> Tensor:
    """What `networks.through` computes: the parameters of each row's network are copied."""
    x, h, j, hide = rows
    x = x.repeat_interleave(len(j) // len(x), 0)
    if hide:
        x = x.scatter(1, j[:, None], 0.0)
    out = x if h is None else h.repeat_interleave(len(j) // len(h), 0)
    for index, (weight, bias) in enumerate(of.layers):
        new = torch.einsum("qi,qio->qo", out, weight[j]) + bias[j, 0]
        if of.active or index < len(of.layers) - 1:
            assert float(new.detach().abs().min()) > 1e-6  # else rounding chooses the slope
            new = F.leaky_relu(new, of.slope)
            new = out + new if index > 0 and new.shape == out.shape else new
        out = new
    if of.skip is not None:
        out = out + torch.einsum("qi,qio->qo", x, of.skip[0][j]) + of.skip[1][j, 0]
    return out


def in_double(of: Networks, rows: NetworkInputs) -> tuple[Networks, NetworkInputs]:
    """The same numbers, with gradients of their own."""
    pairs = [tuple(part.detach().double().requires_grad_() for part in pair) for pair in (*of.layers, of.skip) if pair]
    layers, skip = (pairs, None) if of.skip is None else (pairs[:-1], pairs[-1])
    h = None if rows.h is None else rows.h.detach().double().requires_grad_()
    return of._replace(layers=layers, skip=skip), rows._replace(x=rows.x.double(), h=h)


def differentiated(function: Any, of: Networks, rows: NetworkInputs) -> list[Tensor]:
    """The values, and the gradients of a weighted sum of them in all parameters and in h."""
    out = function(of, rows)
    weights = draws(*out.shape, seed=4).to(out)
    wanted = [*of.parameters, *([] if rows.h is None else [rows.h])]
    return [out.detach(), *torch.autograd.grad((weights * out).sum(), wanted)]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_plain_products(name: str) -> None:
    of, rows = networks_of(CASES[name]), rows_of(CASES[name])
    assert suit(of, rows)
    ours, truth = differentiated(through, of, rows), differentiated(plain, *in_double(of, rows))
    for got, true in zip(ours, truth, strict=True):
        assert got.dtype is torch.float32 and got.is_contiguous()
        torch.testing.assert_close(got.double(), true, rtol=1e-5, atol=2e-6 * float(true.abs().max()))


def test_a_network_without_rows_has_gradients_of_zero() -> None:
    case = CASES["more networks than rows"]
    of, rows = networks_of(case), rows_of(case)
    _, *gradients = differentiated(through, of, rows)
    without = [s for s in range(case.S) if s not in rows.j.tolist()]
    assert without and all(bool((gradient[without] == 0).all()) for gradient in gradients)
    assert all(float(gradient[rows.j].abs().max()) > 0 for gradient in gradients)


@pytest.mark.parametrize("name", ["as the heads of a flow's conditionals", "independent", "a trunk"])
def test_a_row_has_the_same_bits_at_every_place_and_in_every_batch(name: str) -> None:
    case = CASES[name]
    of, (x, h, j, hide) = networks_of(case), rows_of(case)
    whole = through(of, NetworkInputs(x, h, j, hide)).detach().view(case.Q, case.M, -1)
    j = j.view(case.Q, case.M)
    some = torch.tensor([17, 3, 28, 4, 5])
    part = through(of, NetworkInputs(x[some], None if h is None else h[some], j[some].flatten(), hide))
    assert torch.equal(part.detach().view(5, case.M, -1), whole[some])


def test_what_is_hidden_has_no_influence_and_no_gradient() -> None:
    case = CASES["independent"]
    of, rows = networks_of(case), rows_of(case)._replace(j=torch.full((case.Q * case.M,), 4))
    _, weight, *_ = differentiated(through, of, rows)
    changed = rows.x.clone()
    changed[:, 4] += 1.0
    assert torch.equal(through(of, rows), through(of, rows._replace(x=changed)))
    assert float(weight[4, 4].abs().max()) == 0.0 < float(weight[4, 3].abs().min())


def test_strides_change_nothing() -> None:
    case = CASES["several a row"]
    of, rows = networks_of(case), rows_of(case)
    assert rows.h is not None
    strided = rows._replace(
        x=draws(case.D, case.Q, seed=9).t(),
        h=torch.stack([rows.h, rows.h], 1)[:, 1],
        j=torch.stack([rows.j] * 2, 1)[:, 1],
    )
    packed = strided._replace(x=strided.x.contiguous(), j=rows.j, h=rows.h)
    turned = of._replace(layers=[(weight.mT.contiguous().mT, bias) for weight, bias in of.layers])
    assert torch.equal(through(turned, strided), through(of, packed))


def test_second_derivatives_are_refused() -> None:
    of, rows = networks_of(CASES["one layer"]), rows_of(CASES["one layer"])
    with pytest.raises(
        NotImplementedError, match="networks have derivatives of first order only, got create_graph=True"
    ):
        torch.autograd.grad(through(of, rows).sum(), of.parameters, create_graph=True)


@pytest.mark.parametrize("visible", [True, False])
@pytest.mark.parametrize("make", [HeadNetwork, ModulatedNetwork])
@pytest.mark.parametrize("trunk", [(), (24, 16), (16, 16, 16)])
def test_conditionals_are_as_by_torch(make: Any, trunk: tuple[int, ...], visible: bool) -> None:
    made = make(9, 5, trunk, (12, 12))
    with torch.no_grad():
        for i, parameter in enumerate(made.parameters()):
            parameter.copy_(draws(*parameter.shape, seed=i, scale=0.3))
    x, j = draws(40, 9, seed=50), torch.randint(9, (40, 2), generator=torch.Generator().manual_seed(1))

    def values(dtype: torch.dtype) -> list[Tensor]:
        made.to(dtype)
        out = made(x.to(dtype), j, visible)
        return [out.detach(), *torch.autograd.grad((out * draws(40, 2, 5, seed=51).to(dtype)).sum(), made.parameters())]

    for got, true in zip(values(torch.float32), values(torch.float64), strict=True):
        torch.testing.assert_close(got.double(), true, rtol=1e-4, atol=1e-5 * float(true.abs().max()))


# Which of the two.


def test_conditionals_take_the_loops_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, chosen = [], networks.kernel

    def kernel(name: Any) -> Any:
        asked.append(name)
        return chosen(name)

    monkeypatch.setattr(networks, "kernel", kernel)
    made, j = HeadNetwork(9, 5, (16,), (12,)), torch.zeros(4, 1, dtype=torch.int64)
    made(draws(4, 9, seed=0), j, True).sum().backward()
    assert asked == ["networks", "networks", "network_gradients", "network_gradients"]  # the trunk and the heads
    asked.clear()
    made.double()(draws(4, 9, seed=0).double(), j, True)
    assert not asked


def test_what_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    of, rows = networks_of(CASES["several a row"]), rows_of(CASES["several a row"])
    assert rows.h is not None and suit(of, rows)
    assert not suit(*in_double(of, rows))
    with_gradient = rows._replace(x=rows.x.clone().requires_grad_())
    assert not suit(of, with_gradient)
    with torch.no_grad():
        assert suit(of, with_gradient)
    with rounded("bfloat16"):
        assert not suit(of, rows)
    assert not suit(of, rows._replace(x=rows.x[:0], h=rows.h[:0], j=rows.j[:0]))
    wide = [(torch.zeros(5, 16, LARGEST // 16 + 1), torch.zeros(5, 1, LARGEST // 16 + 1))]
    assert not suit(of._replace(layers=wide), rows)
    monkeypatch.setattr(compiled, "kernel", lambda name: None)
    assert not suit(of, rows)


@pytest.mark.slow
def test_who_compiles_has_the_bits_of_those_who_load(tmp_path: Path) -> None:
    code = """
import hashlib
from tests.maths.test_networks import CASES, differentiated, networks_of, rows_of, through
digest = hashlib.sha256()
for case in CASES.values():
    for part in differentiated(through, networks_of(case), rows_of(case)):
        digest.update(part.numpy().tobytes())
print(digest.hexdigest())
"""
    assert_loaded_as_compiled(code, tmp_path)
