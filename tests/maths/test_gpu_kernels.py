"""The kernels of a GPU against the splines and dropouts of torch, whose float64 is the truth here.

Without a GPU the kernels are run by Triton's interpreter, where triton is installed; the tests marked gpu are about
what only a GPU can show.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.maths.test_compiled import BOUND, assert_as_exact, differentiated, draws, spline
from vgi_cli.maths import compiled
from vgi_cli.maths.nets import Dropout
from vgi_cli.maths.noise import mix64

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed: CUDA builds of torch bring it"
)

SLACK = (1e-6, 2e-6, 2e-7)
"""exp and division of a GPU are rounder than those of a CPU."""
HERE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SHAPES = [  # of x, of what follows the parameters
    ((7, 150), (7, 150)),
    ((5, 300), (5, 1)),
    ((4, 3, 50), (4, 1, 1)),
    ((200,), (1,)),
    ((1,), (1,)),
]


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Iterator[ModuleType]:
    patch = pytest.MonkeyPatch()  # triton looks at it when it is imported
    if HERE.type == "cpu":
        if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
            pytest.skip("triton was imported before, and then does not interpret")
        patch.setitem(os.environ, "TRITON_INTERPRET", "1")
    yield importlib.import_module("vgi_cli.maths.gpu_kernels")
    patch.undo()


def by_torch(x: Tensor, parameters: Tensor, inverse: bool) -> tuple[Tensor, ...]:
    """Value, log slope and gradients by the form of torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "is_for", lambda *_: False)
        return differentiated(x, parameters, inverse)


def roughest_by_torch(x: Tensor, parameters: Tensor, inverse: bool, truth: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """As `by_torch`, but of several roundings of the same the one with the largest error, for each result: near a knot
    one rounding is luck. A softmax does not change when its logits are moved together."""
    worst = by_torch(x, parameters, inverse)
    for move in (0.3, -0.7, 1.1, 2.3):
        moved = parameters.clone()
        moved[: 2 * (len(parameters) + 1) // 3] += move
        exact = by_torch(x.double(), moved.double(), inverse)
        errors = [own - other for own, other in zip(by_torch(x, moved, inverse), exact, strict=True)]
        worst = tuple(
            (true + error).float() if error.abs().max() > (one - true).abs().max() else one
            for one, true, error in zip(worst, truth, errors, strict=True)
        )
    return worst


def by_kernels(
    kernels: ModuleType, x: Tensor, parameters: Tensor, weights: Tensor, inverse: bool
) -> tuple[Tensor, ...]:
    x, parameters, weights = (part.to(HERE) for part in (x, parameters, weights))
    made = (
        *kernels.values(x, parameters, BOUND, inverse),
        *kernels.derivatives(x, parameters, *weights, BOUND, inverse),
    )
    return tuple(part.cpu() for part in made)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("bins", [2, 4, 9])
@pytest.mark.parametrize(("shape", "own"), SHAPES)
def test_as_exact_as_torch(
    kernels: ModuleType, shape: tuple[int, ...], own: tuple[int, ...], bins: int, inverse: bool
) -> None:
    x, parameters = draws(*shape, seed=1, scale=2.0), draws(3 * bins - 1, *own, seed=2)
    weights = draws(2, *shape, seed=3)  # those of `differentiated`
    ours, theirs = by_kernels(kernels, x, parameters, weights, inverse), by_torch(x, parameters, inverse)
    assert_as_exact(ours, theirs, by_torch(x.double(), parameters.double(), inverse), SLACK)


@pytest.mark.parametrize("inverse", [False, True])
def test_tails_and_what_is_not_finite(kernels: ModuleType, inverse: bool) -> None:
    x = torch.tensor([-1e30, -BOUND, BOUND, 4.0, torch.inf, torch.nan])
    y, log_slope = (part.cpu() for part in kernels.values(x.to(HERE), draws(11, 6, seed=2).to(HERE), BOUND, inverse))
    torch.testing.assert_close(y[:4], x[:4], atol=1e-6, rtol=1e-6)
    assert not y[4:].isfinite().any() and torch.equal(log_slope[[0, 3]], torch.zeros(2))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("scale", [30.0, 3000.0])
def test_extreme_logits_stay_finite(kernels: ModuleType, scale: float, inverse: bool) -> None:
    x, parameters = draws(500, seed=1, scale=2.0), draws(14, 500, seed=2, scale=scale)
    for part in by_kernels(kernels, x, parameters, torch.ones(2, 500), inverse):
        assert bool(part.isfinite().all())


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_dropout_drops_the_units_that_torch_drops(kernels: ModuleType, share: float) -> None:
    seed, threshold = torch.tensor(-(2**62) + 12345), round((share - 0.5) * 2.0**64)
    mask = kernels.kept(torch.Size([30, 70]), seed.to(HERE), threshold, 1 / (1 - share)).cpu()
    wanted = (mix64(torch.arange(2100).view(30, 70) ^ seed) >= threshold).float().mul_(1 / (1 - share))
    assert torch.equal(mask, wanted) and 0.5 * share < float((mask == 0).float().mean()) < 1.5 * share


@pytest.mark.gpu
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("own", [(3, 700), (3, 1), (1, 700)])
def test_splines_of_a_gpu_take_the_kernels(own: tuple[int, ...], inverse: bool, monkeypatch: Any) -> None:
    x, parameters = draws(3, 700, seed=1, scale=2.0), draws(17, *own, seed=2)
    calls: list[Any] = []
    kernels = compiled.on_gpu().kernels
    assert kernels is not None, compiled.on_gpu().why
    launch = kernels._launch

    def counted(*args: Any) -> None:
        calls.append(args)
        launch(*args)

    monkeypatch.setattr(kernels, "_launch", counted)
    there, logits = x.cuda(), parameters.cuda()
    ours = tuple(part.cpu() for part in differentiated(there, logits, inverse))
    truth = by_torch(x.double(), parameters.double(), inverse)
    assert_as_exact(ours, roughest_by_torch(x, parameters, inverse, truth), truth, SLACK)
    assert len(calls) == 2
    # the same bits at another place, in a smaller batch
    part = slice(300, 309)
    some = logits[..., part] if own[1] > 1 else logits
    assert torch.equal(spline(there[:, part], some, inverse)[0].cpu(), ours[0][:, part])


@pytest.mark.gpu
def test_dropout_of_a_gpu_is_that_of_a_cpu() -> None:
    on_cpu, on_gpu = Dropout(0.3), Dropout(0.3)
    for one in (on_cpu, on_gpu):
        one.initialise(torch.Generator().manual_seed(4))
    on_gpu.cuda()
    x = draws(50, 30, seed=1)
    for _ in range(2):
        assert torch.equal(on_cpu(x), on_gpu(x.cuda()).cpu())


def test_where_triton_cannot_compile_torch_computes_and_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("at 2:10:\n    x = 1\nFailed to find C compiler.")

    monkeypatch.setattr(torch, "zeros", refuse)
    compiled.on_gpu.cache_clear()
    try:
        assert compiled.unfused(torch.device("cpu")) is None
        said = compiled.unfused(torch.device("cuda"))
        assert said is not None and said.endswith("triton cannot compile them: Failed to find C compiler.")
    finally:
        compiled.on_gpu.cache_clear()


def test_the_switch_turns_them_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGI_FAST", "0")
    compiled.on_gpu.cache_clear()
    try:
        said = compiled.unfused(torch.device("cuda"))
        assert said is not None and said.endswith("triton is not installed, or VGI_FAST turns it off")
    finally:
        compiled.on_gpu.cache_clear()
