"""What several processes make of a fit, beside what one makes of it: `python -m tests.ranks.numbers CASE …` in each of
them. Rank 0 prints the largest difference of any parameter, and of an objective, in each case, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.data import TensorTable, make_table
from vgi_cli.layout import Layout
from vgi_cli.machine.launch import launched
from vgi_cli.machine.ranks import Together, joined
from vgi_cli.methods.base import EpochEnd, StepEnd
from vgi_cli.methods.loop import LoopState
from vgi_cli.methods.reweighted import Reweighted, Size
from vgi_cli.models.base import built
from vgi_cli.ranks import ALONE, Ranks
from vgi_cli.registry.names import METHODS, MODELS

STEPS = 50
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Case(NamedTuple):
    """A fit: model and method with their settings, of rows with or without levels, holes and weights."""

    model: str
    method: str
    model_settings: Mapping[str, Any] = NOTHING
    settings: Mapping[str, Any] = NOTHING
    optim: Mapping[str, Any] = NOTHING
    N: int = 61
    levels: bool = False
    whole: bool = False
    weighted: bool = False


WARM = {"warmup_conditionals": 2, "warmup_model": 2, "batch_size": 16}
WARM_VAE = {"warmup_model": 2, "batch_size": 16}
FA = {"factors": 2}
CASES = {
    "vgi": Case("fa", "vgi", FA, optim=WARM),
    "em": Case("fa", "em", FA, N=300),
    "em of levels": Case("mixture", "em", {"components": 3, "outliers": True}, N=200, levels=True),
    "vgi, weighted": Case("fa", "vgi", FA, optim=WARM, weighted=True),
    "vgi, as in the paper": Case("fa", "vgi", FA, {"accept": "gibbs"}, WARM),
    "vgi, at the accepted state": Case("fa", "vgi", FA, {"gradient": "accepted"}, WARM),
    "vgi, more ranks than rows": Case("fa", "vgi", FA, optim=WARM, N=3),
    "vgi of levels": Case("mixture", "vgi", {"components": 2}, optim=WARM, levels=True),
    "vgi, path": Case("fa", "vgi", FA, {"scan": "path"}, WARM),
    "vgi, flow": Case("flow", "vgi", {"steps": 1, "hidden": 8, "bins": 4}, optim=WARM),
    "vgi, flow of levels": Case("flow", "vgi", {"steps": 1, "hidden": 8, "bins": 4}, optim=WARM, levels=True),
    "vbgi of a vae": Case("vae", "vbgi", {"latents": 2}, optim=WARM_VAE),
    "vbgi of a vae with levels": Case("vae", "vbgi", {"latents": 2}, optim=WARM_VAE, levels=True),
    "vbgi-m": Case("vae", "vbgi-m", {"latents": 2}, optim=WARM_VAE),
    "miwae": Case("vae", "miwae", {"latents": 2}, {"samples": 3}, {"batch_size": 16}),
    "mvae": Case("vae", "mvae", {"latents": 2}, optim={"batch_size": 16}),
    "hivae": Case("vae", "hivae", {"latents": 2, "prior": "mixture"}, optim={"batch_size": 16}, levels=True),
    "partial-vae": Case("vae", "partial-vae", {"latents": 2, "encoding": "set"}, optim={"batch_size": 16}),
    "complete": Case("fa", "complete", FA, optim={"batch_size": 16}, whole=True),
    "em, factors": Case("mixture", "em", {"components": 2, "covariance": "factor", "factors": 1}, N=90, weighted=True),
    "em, shifted": Case("mixture", "em", {"components": 2, "dependence": "linear"}, N=200, levels=True),
    "em, more ranks than rows": Case("mixture", "em", {"components": 1}, N=3),
}


def table_of(case: Case) -> TensorTable:
    """Rows of four columns; one is missing wholly, some are complete."""
    g = torch.Generator().manual_seed(1)
    z = torch.randn(case.N, 2, dtype=torch.float64, generator=g)
    x = z @ torch.randn(2, 4, dtype=torch.float64, generator=g)
    x = x + 0.5 * torch.randn(case.N, 4, dtype=torch.float64, generator=g)
    missing = torch.rand(case.N, 4, generator=g) < (0.0 if case.whole else 0.3)
    layout = Layout.plain(4)
    if case.levels:
        x[:, 1] = (x[:, 1] > 0).to(x.dtype)
        x[:, 3] = x[:, 3].round().clamp(-1, 1) + 1
        layout = Layout.of(("a", "b", "c", "d"), levels=(0, 2, 0, 3))
    if not case.whole:
        missing[: case.N // 4] = False
        missing[-1] = True
    table = make_table(torch.where(missing, 0.0, x), missing, layout)
    return table._replace(weight=torch.rand(case.N, dtype=torch.float64, generator=g)) if case.weighted else table


def fitted(case: Case, ranks: Ranks) -> tuple[Any, list[float]]:
    """The state after STEPS steps (of EM: iterations), and the objectives on the way."""
    table, family, method = table_of(case), MODELS.load(case.model), METHODS.load(case.method)
    usual = dict(family.method_defaults.get(case.method, {}))
    optim = {**usual.pop("optim", {}), **case.optim}
    values = {"epochs": STEPS, **usual, **case.settings, **({"optim": optim} if optim else {})}
    config = method.Config.model_validate(values)
    model = built(family, family.Config.model_validate(case.model_settings), table.layout).double()
    state = method.init(model, table, config, torch.Generator().manual_seed(0))
    state.divide(ranks)
    if isinstance(state, LoopState) and table.relative_weight is not None:
        state.row_weight = table.relative_weight
    objectives, steps = [], 0
    for event in method.run(state):
        if isinstance(event, EpochEnd):
            objectives.append(event.metrics["objective"])
        steps += isinstance(event, StepEnd) or case.method == "em"
        if steps == STEPS:
            break
    return state, objectives


def refitted(state: LoopState, method: str) -> dict[str, Tensor]:
    """The parameters of a short refit of a fit."""
    parts = state.parts()
    rows = torch.arange(0, len(state.holes) - 1, 2)
    size = Size(1, len(rows), 8, 2, 0.0)
    weight = torch.linspace(0.5, 1.5, len(rows), dtype=torch.float64)
    of = Reweighted(parts["model"], parts.get("conditionals", {}), rows, weight, size, 3)
    short, events = METHODS.load(method).refit(state, of)
    for _ in events:
        pass
    return dict(short.parts()["model"])


def largest(pairs: list[tuple[Tensor, Tensor]]) -> float:
    """The largest difference of any number from its pair."""
    return max(float((a.double() - b.double()).abs().max()) for a, b in pairs if a.numel())


def difference(case: Case, ranks: Ranks) -> dict[str, float]:
    """How far what these ranks fit is from what one process fits."""
    (one, alone), (own, shared) = fitted(case, ALONE), fitted(case, ranks)
    found: dict[str, float] = {"objective": max(abs(a - b) for a, b in zip(alone, shared, strict=True))}
    a, b = one.parts(), own.parts()
    for stem in ("model", "conditionals", "state"):
        pairs = [(a.get(stem, {})[name], value) for name, value in b.get(stem, {}).items()]
        found |= {stem: largest(pairs)} if pairs else {}
    if isinstance(own, LoopState):
        rows = torch.arange(own.share.start, own.share.stop)
        found["chains"] = largest([(one.chains.completed(0, rows), own.chains.completed(0))]) if len(rows) else 0.0
        refits = refitted(one, case.method), refitted(own, case.method)
        found["refit"] = largest([(refits[0][name], refits[1][name]) for name in refits[0]])
    return found


def main(names: list[str], say: Callable[[str], None]) -> None:
    with joined(launched(), torch.device("cpu")) as ranks:
        assert isinstance(ranks, Together)
        for name in names:
            found = difference(CASES[name], ranks)
            worst = ranks.most(*(int(value * 1e15) for value in found.values()))
            if ranks.rank == 0:
                say(json.dumps({name: dict(zip(found, (value * 1e-15 for value in worst), strict=True))}))


if __name__ == "__main__":
    main(sys.argv[1:], print)
