"""What a method is: a way to fit a model on an incomplete table. It never prints, saves or exits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from vgi_cli.chains.store.formats import NAMES
from vgi_cli.chains.store.placement import MemoryBudget
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.data import TensorTable
from vgi_cli.methods.reweighted import Reweighted
from vgi_cli.models.base import Model

Parts: TypeAlias = dict[str, dict[str, Tensor]]
"""File stem (`model`, `conditionals`, `imputations`, `state`) -> named tensors: what a run folder keeps."""


LINES = NAMES
"""Tensors of `imputations` whose lines lie row by row: where processes share the rows, each has some of them."""


class Unusable(NamedTuple):
    """A setting `method.key` that is well-formed and cannot be used: what is wrong, and what to do."""

    key: str
    message: str
    hint: str


class MethodConfig(BaseModel):
    """Settings of a method: the keys `method.*` and `optim.*` of a recipe. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    piloted: ClassVar[bool] = True
    """Whether held-out rows tell early how many epochs are enough, where nobody says how many."""
    paced: ClassVar[bool] = True
    """Whether a few steps tell how long an epoch takes."""

    def check(self) -> Iterable[Unusable]:
        """Settings that exclude each other, or need what is not installed here: refused before data are read."""
        return ()

    def without_effect(self) -> Mapping[str, str]:
        """Settings that do nothing beside the others, and why: refused where somebody changed them."""
        return {}


class StepEnd(NamedTuple):
    """One whole step was taken: a moment at which the state may be saved."""


class PieceEnd(NamedTuple):
    """A part of a long step was done: the state may be saved, and what is saved has the model of before the step. No
    limit is looked at, which could not be told again as a number of steps."""


class EpochEnd(NamedTuple):
    """An epoch ended (for `em`: an iteration). `epoch` counts from 1; metrics are numbers or lists (per column)."""

    epoch: int
    metrics: dict[str, Any]


Events: TypeAlias = Iterator[StepEnd | PieceEnd | EpochEnd]
"""What running a fit yields."""


class Standing(NamedTuple):
    """How far a fit is: the share of it that is done, from 0 to 1, and what is counted on the way (`total` where it is
    known)."""

    share: float
    done: float
    total: float | None
    unit: str


class State(ABC):
    """Everything a fit needs to go on, whole when it is built. Restoring it and going on gives bit for bit what not
    stopping gives."""

    model: Model  # the published model: averaged or current parameters
    epoch: int  # whole epochs done
    epochs: int  # epochs to do

    @abstractmethod
    def parts(self) -> Parts:
        """Named tensors by file stem. `model` holds the published model, `state` everything else that resuming
        needs (current parameters, optimiser moments, generator states, order and position in the epoch).

        All are copies except those of `imputations`, which are the state's own memory, too large to copy: whoever
        keeps them beyond the next step copies them."""

    @property
    def conditionals(self) -> Conditionals | None:
        """The fitted conditionals; None: the method fits none."""
        return None

    @property
    def compiled(self) -> str | None:
        """What of the steps is captured or compiled, in words (`off`: nothing); None: the method never does."""
        return None

    def chosen(self) -> dict[str, Any]:
        """What this fit takes for settings that may be left open, by dotted key (`optim.lr`): said in a recipe, they
        give the same fit."""
        return {}

    @abstractmethod
    def restore(self, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take up what `parts` gave (in place)."""

    def standing(self) -> Standing:
        """How far the fit is: of the planned epochs, unless it knows better."""
        return Standing(self.epoch / max(self.epochs, 1), self.epoch, self.epochs, "epochs")


Tuning: TypeAlias = tuple[Any, Events]
"""A fit to other rows that has not begun (a State with `chains`), and what runs it."""


def unheard(line: str) -> None:
    """Where nobody listens."""


class Resources(NamedTuple):
    """What a fit may use of the machine that it runs on. It changes no result, `compile` no more than the last digits.

    memory   what is free for the chains; None: everything fits on the device
    compile  whether steps are captured (on a GPU) or the density is compiled (on a CPU): on, off or auto
    warn     called with a line where that turns out not to work
    """

    memory: MemoryBudget | None = None
    compile: str = "off"
    warn: Callable[[str], None] = unheard


def anything_goes(family: type[Model], config: Any) -> None:
    """Every setting works with every family of models that the method takes."""


def any_table(table: TensorTable) -> None:
    """Every table can be fitted."""


class Method(NamedTuple):
    """A method: its settings, and the two functions that run it. What it needs of a model is in its entry
    (registry/names.py).

    Config     pydantic settings
    init       init(model, table, config, generator) -> State; deterministic given the generator. A method that keeps
               imputations also takes Resources
    run        run(state, stop) -> Events; ends when state.epoch == state.epochs or it has converged. `stop` is asked by
               long steps on their way: where it is true they end without a trace, and `run` with them
    check      check(family, config): UsageError for settings that cannot work with a family of models, before data are
               read
    target     target(family, config) -> Target (methods/vgi/targets.py) of a method with conditionals; None: others
    tune       tune(state, table, inside, generator, epochs) -> (state, events): fine-tuning of what is amortised
               (conditionals, encoder; copies) to other rows, the rest of the published model frozen. The objective of
               its epochs is the method's own loss on those rows; the first proposals stay in the box inside [2, D].
               None: the method's objective is the log-likelihood itself, or bounds none
    refit      refit(state, of) -> (state, events): a short fit to rows that count by weights, from the parameters of a
               fit that has ended, a LoopState, which does not change (methods/reweighted.py). None: it has none
    fixed      settings of the model (`model.*`) that make the method what it is: taken where nobody says otherwise,
               and refused where somebody does
    check_table  check_table(table): UsageError for a table that cannot be fitted, asked before the size of a model is
               chosen
    warning    warning(state, metrics) -> a line for the user about a fit that has ended and should not be trusted as it
               is; None: nothing speaks against it. `metrics` has the last value of every metric of the fit's epochs
    """

    Config: type[MethodConfig]
    init: Callable[..., State]
    run: Callable[[Any, Callable[[], bool]], Events]
    check: Callable[[type[Model], Any], None] = anything_goes
    target: Callable[[type[Model], Any], Any] | None = None
    tune: Callable[[Any, TensorTable, Tensor, torch.Generator, int], Tuning] | None = None
    refit: Callable[[Any, Reweighted], Tuning] | None = None
    fixed: Mapping[str, Any] = MappingProxyType({})
    check_table: Callable[[TensorTable], None] = any_table
    warning: Callable[[Any, Mapping[str, Any]], str | None] | None = None
