"""Abstract univariate families: an increasing map from a standard normal, given parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor


class Family(ABC):
    """x = T(u; params) with u standard normal and T strictly increasing."""

    width: int  # number of parameters

    @abstractmethod
    def to_value(self, params: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """(x, log dx/du), each [..], for params [.., width] and u [..]."""

    @abstractmethod
    def to_base(self, params: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """(u, log du/dx): the inverse of `to_value`."""

    @abstractmethod
    def entropy(self, params: Tensor) -> Tensor | None:
        """Differential entropy [..], nats, where it has a closed form, else None."""
