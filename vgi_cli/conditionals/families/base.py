"""Abstract families of conditionals: a family gives a law from the parameters that a network gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Self

from torch import Tensor

from vgi_cli.errors import UsageError
from vgi_cli.maths.laws import Law

MAX_LOG_STD = 7.0  # |log std| is squashed softly below this: e^7 standard deviations of the column either way
BOUND = 3.0  # splines act on [-3, 3] in base space; tails are linear


class FamilySettings(NamedTuple):
    """Settings of families (`method.spline_steps`, `method.spline_bins`)."""

    steps: int
    bins: int


class AnyFamily(ABC):
    """What families of single columns and of blocks have in common.

    width        parameters of one law; all zero: a standard normal, where the family has it
    fresh_width  numbers of noise that one draw from a law needs
    noise_width  numbers that one draw from a widened law needs: those, and more
    """

    width: int
    fresh_width: int
    noise_width: int


class Family(AnyFamily):
    """Laws of single columns."""

    @classmethod
    @abstractmethod
    def build(cls, settings: FamilySettings) -> Self:
        """The family that the settings describe."""

    @classmethod
    def of_blocks(cls, W: int, settings: FamilySettings) -> BlockFamily:
        """Joint laws of this kind for blocks of at most W columns. UsageError where there are none."""
        raise UsageError(
            f"method.conditional: a {cls.__name__} has no joint law of several columns",
            "leave out the blocks, or take method.conditional=gaussian",
        )

    @abstractmethod
    def law(self, params: Tensor) -> Law:
        """The laws with parameters [.., width]."""


class BlockFamily(AnyFamily):
    """Joint laws of the cells of blocks, of at most W columns; the first W parameters are locations."""

    @abstractmethod
    def law(self, params: Tensor, x: Tensor, wanted: Tensor, real: Tensor) -> Law:
        """The laws with parameters [.., width] of the cells that are `wanted`, given the block's others.

        x, wanted, real  [.., W] its cells; those that are not `real` fill up a narrower block and are never wanted. A
                         draw has x where nothing is wanted.
        """
