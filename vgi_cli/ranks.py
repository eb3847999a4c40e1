"""The processes that share a fit: what each asks of the others. Here a process alone, of which nothing has to be asked;
several are in machine/ranks.py.

A *rank* is one process and its number (as in MPI and torch.distributed). Every rank knows the whole table and owns some
of its rows. All that decides what a rank does next must be the same in all of them: what depends on a clock, on a
signal or on rows of one rank only is agreed on first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch
from torch import Tensor

Tensors: TypeAlias = dict[str, Tensor]


class Ranks:
    """A process alone.

    rank    number of this process, from 0; 0 keeps the run
    world   how many there are
    beside  how many of them are on this machine
    """

    rank: int = 0
    world: int = 1
    beside: int = 1

    @property
    def alone(self) -> bool:
        """Whether nothing has to be asked of anybody."""
        return self.world == 1

    def device(self, device: torch.device) -> torch.device:
        """The device on which this rank computes, where all were told this one: each has a GPU of its own."""
        return device

    def total(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The sums over all ranks of floating tensors of one type and device, the same bits in all of them. What was
        handed in does not change."""
        return tensors

    def agree(self, *tensors: Tensor) -> None:
        """Set tensors of any types, in place, to what they are in rank 0."""

    def most(self, *values: int) -> tuple[int, ...]:
        """The largest of each value over all ranks."""
        return values

    def any(self, condition: bool) -> bool:
        """Whether a condition holds in one of the ranks."""
        return self.most(int(condition))[0] > 0

    def text(self, text: str) -> str:
        """The text that rank 0 has."""
        return text

    def score(self, work: Callable[[], float], given_up: type[Exception]) -> float:
        """What some work gives that rank 0 alone does; where it gives up there, all do."""
        return work()

    def collect(self, tensors: Tensors) -> list[Tensors]:
        """What each rank hands in, in their order, on rank 0; elsewhere nothing."""
        return [tensors]

    def pieces(self, own: Tensor) -> Iterator[Tensor]:
        """Of a tensor whose lines lie one rank after the other: all lines in order, some at a time, on rank 0;
        elsewhere nothing. `own`: those of this rank."""
        yield own

    def lines(self, own: Tensor) -> int:
        """How many lines such a tensor has in all ranks, on rank 0."""
        return len(own)


ALONE = Ranks()


def cuts(costs: Tensor, world: int) -> list[int]:
    """Where to cut N rows of these costs [N] into `world` pieces of about equal cost: world + 1 numbers from 0 to N.
    No piece is empty while there are rows enough. A pure function."""
    N = len(costs)
    done = costs.to(torch.float64).cumsum(0)
    whole = float(done[-1]) if N else 0.0
    found = [0]
    for piece in range(1, world):
        at = 1 + int(torch.searchsorted(done, torch.tensor(whole * piece / world, dtype=torch.float64)))
        last = max(N - (world - piece), 0) if world <= N else N
        found.append(min(max(at, found[-1] + 1), last))
    return [*found, N]
