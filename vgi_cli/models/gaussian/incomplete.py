"""Incomplete rows as Gaussians look at them: once, or at every step of a climb, where what no step changes is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from vgi_cli.maths.gaussian import Patterns

Made = TypeVar("Made")


class Kept:
    """What a module has made of its parameters, by name; a copy of the module makes its own."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Kept:
        return Kept()

    def clear(self) -> None:
        """Keep nothing: what is to be made is another thing now."""
        self._made.clear()

    def until_changed(self, name: str, given: Sequence[Tensor], make: Callable[[], Made]) -> Made:
        """What `make` makes of the numbers that tensors hold: what it made last, where they still are the same. With
        gradients it is made each time."""
        return make() if torch.is_grad_enabled() else _until_changed(self._made, name, given, make)


class Incomplete:
    """R rows with holes.

    x         [R, D]; missing cells are ignored
    patterns  of the holes
    again     whether they are looked at more than once, without gradients
    summed    whether all that is asked is their densities and sums over them, without gradients, as in a step of EM:
              then compiled loops may look at them
    """

    def __init__(self, x: Tensor, patterns: Patterns, *, again: bool = False, summed: bool = False) -> None:
        self.x, self.patterns, self.again, self.summed = x, patterns, again, summed
        self._of_rows: dict[str, Any] | None = {} if again else None
        self._of_holes: dict[str, Any] | None = {} if again else None

    def moved(self, x: Tensor) -> Incomplete:
        """Other rows [R, D] with the same holes, which are looked at once: what is made of the holes alone they have in
        common."""
        rows = Incomplete(x, self.patterns, summed=self.summed)
        rows._of_holes = self._of_holes
        return rows

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """What `make` makes of the rows, by a name of it; where they are looked at again, it is made once."""
        return _once(self._of_rows, name, make)

    def of_holes(self, name: str, make: Callable[[], Made]) -> Made:
        """As `once`, of the holes alone."""
        return _once(self._of_holes, name, make)

    def until_changed(self, name: str, given: Sequence[Tensor], make: Callable[[], Made]) -> Made:
        """As `once`, and made again where what it is made from has changed."""
        return _until_changed(self._of_rows, name, given, make)

    def of_holes_until_changed(self, name: str, given: Sequence[Tensor], make: Callable[[], Made]) -> Made:
        """As `until_changed`, of the holes and what is given alone."""
        return _until_changed(self._of_holes, name, given, make)


def _once(kept: dict[str, Any] | None, name: str, make: Callable[[], Made]) -> Made:
    if kept is None:
        return make()
    if name not in kept:
        kept[name] = make()
    return cast(Made, kept[name])


def _until_changed(kept: dict[str, Any] | None, name: str, given: Sequence[Tensor], make: Callable[[], Made]) -> Made:
    if kept is None:
        return make()
    before, made = kept.pop(name, ((), None))  # what has changed is let go before it is made anew
    if len(before) != len(given) or not all(map(_same, before, given)):
        made = None
        before, made = tuple(part.detach().clone() for part in given), make()
    kept[name] = before, made
    return cast(Made, made)


def _same(before: Tensor, now: Tensor) -> bool:
    return before.dtype == now.dtype and before.device == now.device and torch.equal(before, now)
