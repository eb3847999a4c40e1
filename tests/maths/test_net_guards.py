"""The compiled loops of networks neither read nor write beside their arrays."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.maths import test_networks as networks
from tests.maths import test_residual as residuals
from tests.maths.test_compiled import draws

pytest.importorskip("numba", reason="the extra `fast` is not installed")

ROOM, MARK = 512, 7.25


class Guards:
    """Arrays with room before and behind."""

    def __init__(self) -> None:
        self._every: list[tuple[Tensor, Tensor]] = []

    def around(self, t: Tensor) -> Tensor:
        """The same numbers, with NaN beside them, which would show in what is computed."""
        beside = torch.full((ROOM,), torch.nan if t.is_floating_point() else 0).to(t.dtype)
        return torch.cat([beside, t.contiguous().flatten(), beside])[ROOM:-ROOM].view(t.shape)

    def new(self, like: Tensor, shape: Any, fill: float | None = None) -> Tensor:
        """An array of a shape; what lies beside it must be there at the end."""
        size = int(torch.Size(shape).numel())
        whole = torch.full((size + 2 * ROOM,), MARK, dtype=like.dtype)
        whole[ROOM : ROOM + size] = torch.nan if fill is None else fill
        self._every.append((whole[:ROOM], whole[ROOM + size :]))
        return whole[ROOM : ROOM + size].view(shape)

    def hold(self) -> bool:
        assert self._every
        return all(bool((side == MARK).all()) for pair in self._every for side in pair)


@pytest.fixture
def guards(monkeypatch: pytest.MonkeyPatch) -> Guards:
    """Around what the loops are given to write."""
    made = Guards()
    usual = torch.Tensor.new_empty

    def new_empty(self: Tensor, *shape: Any, **more: Any) -> Tensor:
        size = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return made.new(self, size) if self.dtype == torch.float32 and not more else usual(self, *shape, **more)

    monkeypatch.setattr(torch.Tensor, "new_empty", new_empty)
    monkeypatch.setattr(torch, "empty_like", lambda t: made.new(t, t.shape))
    monkeypatch.setattr(torch, "zeros_like", lambda t: made.new(t, t.shape, 0.0))
    return made


def same(got: list[Tensor], wanted: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))


@pytest.mark.parametrize("name", networks.CASES)
def test_networks_of_conditionals(name: str, request: pytest.FixtureRequest) -> None:
    case = networks.CASES[name]
    of, rows = networks.networks_of(case), networks.rows_of(case)
    wanted = networks.differentiated(networks.through, of, rows)
    guards: Guards = request.getfixturevalue("guards")

    def guarded(of: Any, rows: Any) -> Tensor:
        layers = [(guards.around(weight), guards.around(bias)) for weight, bias in of.layers]
        skip = None if of.skip is None else (guards.around(of.skip[0]), guards.around(of.skip[1]))
        h = None if rows.h is None else guards.around(rows.h)
        rows = rows._replace(x=guards.around(rows.x), h=h, j=guards.around(rows.j))
        return networks.through(of._replace(layers=layers, skip=skip), rows)

    assert same(networks.differentiated(guarded, of, rows), wanted) and guards.hold()


@pytest.mark.parametrize("name", residuals.CASES)
def test_networks_of_flows(name: str, request: pytest.FixtureRequest) -> None:
    case = residuals.CASES[name]
    net, x = residuals.network(case), draws(case.inputs, case.R, seed=300)
    wanted = residuals.differentiated(residuals.through, net, x)
    guards: Guards = request.getfixturevalue("guards")

    def guarded(net: Any, x: Tensor) -> Tensor:
        parameters = [guards.around(part) for part in net.parameters]
        masks = [None if mask is None else guards.around(mask) for mask in net.masks]
        return residuals.through(net._replace(parameters=parameters, masks=masks), guards.around(x))

    assert same(residuals.differentiated(guarded, net, x), wanted) and guards.hold()


def test_who_makes_the_arrays_knows_what_the_loops_read() -> None:
    from vgi_cli.maths import net_kernels
    from vgi_cli.maths.networks import BEYOND
    from vgi_cli.maths.residual import ROWS, TALL, WIDE

    assert (WIDE, ROWS, TALL) == (net_kernels.WIDE, net_kernels.ROWS, net_kernels.TALL) and BEYOND == WIDE
    assert TALL % ROWS == 0
