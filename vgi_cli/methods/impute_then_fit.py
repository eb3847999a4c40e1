"""Impute first, then fit: the model is fitted to K completed tables, stacked at weight 1/K each (paper, appendix on
combining multiple imputations), and the imputations know nothing of the model. The baseline of the joint methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import torch
from pydantic import model_validator

from vgi_cli.chains.store.packed import make_chains
from vgi_cli.chains.store.placement import Setting
from vgi_cli.completers.base import GivenUp, never
from vgi_cli.data import TensorTable
from vgi_cli.errors import UsageError, nearest
from vgi_cli.methods import gradient
from vgi_cli.methods.base import EpochEnd, Events, Method, Resources, Unusable
from vgi_cli.methods.gradient import GradientState, log_likelihood
from vgi_cli.methods.optimisation import AscentConfig
from vgi_cli.methods.start import empirical, initial_rows, starts_aligned
from vgi_cli.models.base import Model
from vgi_cli.ranges import Depth, Imputations, Neighbours, Rounds, Trees
from vgi_cli.registry.names import COMPLETERS, INSTALL, not_installed

COUNTS = ("imputations", "iterations", "trees", "depth", "neighbours")
INITIALISE, IMPUTE = -3, -4  # purposes of random streams; imputation k takes IMPUTE - k


class ImputeThenFitConfig(AscentConfig):
    """Settings of the imputer and of the fit.

    imputer      its name (registry/names.py)
    imputations  K
    iterations   rounds over the columns (mice, missforest, miceforest)
    trees        of each forest (missforest) or boosted regression (miceforest)
    depth        of a tree, at most; None: no limit (the same)
    neighbours   donors that a value is drawn from (miceforest)
    chains       as in ImputingConfig

    What nobody says is the imputer's own; what it does not take stays none.
    """

    paced: ClassVar[bool] = False  # the imputations come first
    imputer: str = "mice"
    imputations: Imputations | None = None
    iterations: Rounds | None = None
    trees: Trees | None = None
    depth: Depth | None = None
    neighbours: Neighbours | None = None
    chains: Setting = "auto"

    @model_validator(mode="before")
    @classmethod
    def _imputers_own(cls, values: Any) -> Any:
        """Fill in the defaults of the named imputer."""
        entry = COMPLETERS.get(values.get("imputer", "mice")) if isinstance(values, dict) else None
        if entry is None:
            return values
        return values | {k: v for k, v in entry.traits.settings.items() if values.get(k) is None}

    def check(self) -> Iterable[Unusable]:
        """An imputer that does not exist or lacks its package, and settings that it does not take."""
        name = self.imputer
        if name not in COMPLETERS:
            yield Unusable("imputer", f"unknown imputer '{name}'", nearest(name, COMPLETERS))
            return
        package, traits = not_installed(name), COMPLETERS[name].traits
        if package is not None:
            yield Unusable("imputer", f"imputer '{name}' needs {package}, which is not installed", INSTALL)
        if traits.single and self.imputations != 1:
            message = f"imputer '{name}' gives one imputation, got {self.imputations}"
            yield Unusable("imputations", message, "leave it out, or take another imputer")
        for key in COUNTS:
            if key not in traits.settings and getattr(self, key) is not None:
                known = [other for other, its in COMPLETERS.items() if key in its.traits.settings]
                message = f"imputer '{name}' has no setting '{key}'"
                yield Unusable(key, message, f"leave it out, or take --imputer {' or '.join(known)}")

    @property
    def own(self) -> Mapping[str, int | None]:
        """The settings that the imputer takes."""
        return {key: getattr(self, key) for key in COMPLETERS.entry(self.imputer).traits.settings}


def init(
    model: Model,
    table: TensorTable,
    config: ImputeThenFitConfig,
    generator: torch.Generator,
    resources: Resources | None = None,
) -> GradientState:
    """State before the first imputation: chains at f0 (draws from the marginals).

    Raises UsageError for settings that cannot be used.
    """
    for problem in config.check():
        raise UsageError(problem.message, problem.hint)
    K = config.own["imputations"]
    assert K is not None
    seed = int(torch.randint(2**62, (), generator=generator))
    chains = make_chains(table, K, config.chains, None if resources is None else resources.memory)
    empirical(chains, generator)
    model.initialise(initial_rows(chains).cpu(), generator)
    return GradientState(model, chains, config, seed, log_likelihood, keeps=True, filling=K)


def run(state: GradientState, stop: Callable[[], bool] = never) -> Events:
    """Make the imputations that are still missing, then climb. Each imputation is a stage that can be saved; one that
    is given up on its way leaves nothing, and no epochs follow."""
    while state.refreshed < -1:
        try:
            made = _impute(state, stop)
        except GivenUp:
            return
        yield made
    yield from gradient.run(state, stop)


def _impute(state: GradientState, stop: Callable[[], bool]) -> EpochEnd:
    """Make the next imputation; after the last one, initialise the model from all of them."""
    chains, config = state.chains, state.config
    assert isinstance(config, ImputeThenFitConfig)
    k = chains.K + 1 + state.refreshed
    seed = int(torch.randint(2**32, (), generator=_stream(state, IMPUTE - k)))
    x, missing = chains.x.cpu().double().numpy(), chains.missing.cpu().numpy()
    asked, regressions = 0, int(missing.any(0).sum()) * (config.own.get("iterations") or 1)

    def give_up() -> bool:  # asked before every regression
        nonlocal asked
        state.filling = k + min(asked / regressions, 1.0), chains.K
        asked += 1
        return stop()

    levels = chains.layout.levels
    filled = torch.from_numpy(COMPLETERS.load(config.imputer)(x, missing, seed, config.own, give_up, levels))
    state.filling = float(k + 1), chains.K
    chains.set_chain(k, filled)
    state.refreshed += 1
    if state.refreshed == -1:
        rows = initial_rows(chains).cpu()
        state.theta.initialise(rows, _stream(state, INITIALISE))
        if starts_aligned(state.theta, int((~chains.missing.all(1)).sum()), chains.layout):
            numbers = rows[:, list(chains.layout.continuous)].double()
            state.theta.align(numbers.mean(0), numbers.T.cov(correction=0).view(2 * [numbers.shape[1]]))
        state.publish()
    return EpochEnd(k + 1, {"stage": "imputation"})


def _stream(state: GradientState, purpose: int) -> torch.Generator:
    """A random stream of the state on the CPU."""
    return torch.Generator().manual_seed(state.generator(purpose).initial_seed())


METHOD = Method(Config=ImputeThenFitConfig, init=init, run=run)
