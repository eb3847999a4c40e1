"""What every registered method promises on every model it works for: exact resume, determinism, honest events."""

import pytest
import torch

from tests.selection import some
from vgi_cli.completers.base import never
from vgi_cli.data import make_table
from vgi_cli.layout import Layout
from vgi_cli.methods.base import EpochEnd, StepEnd
from vgi_cli.models.base import Latent, Model
from vgi_cli.registry import names as registry
from vgi_cli.settings.components import merged

PAIRS = [
    (model, method)
    for model, m in registry.MODELS.items()
    for method, e in registry.METHODS.items()
    if e.needs <= m.provides
]
WAYS = {"vbgi, single cells": "vbgi"}
"""Settings that make another algorithm of a method, under a name of their own here, and the method."""
PAIRS += [("vae", way) for way in WAYS]
SMALL = {
    "vgi": {
        "epochs": 2,
        "imputations": 2,
        "hidden": (4,),
        "trunk": (6,),
        "optim": {"batch_size": 32, "warmup_conditionals": 1, "warmup_model": 1},
    },
    "em": {"epochs": 4},
    "em-factorised": {"epochs": 4},
    "complete": {"epochs": 2, "optim": {"batch_size": 32}},
    "mvae": {"epochs": 2, "optim": {"batch_size": 32}},
    "miwae": {"epochs": 2, "samples": 3, "optim": {"batch_size": 32}},
    "hivae": {"epochs": 2, "optim": {"batch_size": 32}},
    "partial-vae": {"epochs": 2, "optim": {"batch_size": 32}},
    "impute-then-fit": {"epochs": 2, "imputer": "empirical", "imputations": 2, "optim": {"batch_size": 32}},
    "mcem": {"epochs": 2, "imputations": 2, "optim": {"batch_size": 32}},
    "plmcmc": {
        "epochs": 2,
        "imputations": 2,
        "first": 0.5,
        "every": 0.5,
        "steps": ((0, 8),),
        "optim": {"batch_size": 32},
    },
}
SMALL["vbgi"] = SMALL["vgi"]
LATENT = {"imputations": 2, "optim": {"batch_size": 32, "warmup_conditionals": 0, "warmup_model": 1}}
SMALL_LATENT = {  # where latents are a block
    "vbgi": LATENT | {"trunk": (6,), "epochs": 2},
    "vbgi, single cells": LATENT | {"cells": "single", "trunk": (6,), "hidden": (4,), "epochs": 2},
    "vbgi-m": LATENT | {"epochs": 2},
}
FLOW = {"steps": 1, "hidden": 6, "bins": 4, "blocks": 1}
VAE = {"encoder": (6,), "decoder": (6,)}
SMALL_MODELS = {"flow": FLOW, "flow-ar": FLOW, "vae": VAE}
BLOCKS = {"vbgi": Layout.plain(4).grouped(["02"])}
COMPLETE = {"complete"}  # methods that refuse holes
COVERED = {
    *(("fa", "vbgi"), ("mixture", "vbgi"), ("flow", "vgi"), ("flow-ar", "vbgi")),
    *(("flow-ar", "plmcmc"), ("flow-ar", "complete"), ("flow-ar", "impute-then-fit")),
}
"""Pairs that run before releases: their models run with other methods, and their methods with other models."""
every = pytest.mark.parametrize(("model", "method"), some([pair for pair in PAIRS if pair not in COVERED], PAIRS))


def table(holes=True):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(60, 2, generator=g, dtype=torch.float64) @ torch.randn(2, 4, generator=g, dtype=torch.float64)
    x = x + 0.5 * torch.randn(60, 4, generator=g, dtype=torch.float64)
    missing = torch.rand(60, 4, generator=g) < 0.3
    missing[3] = True  # a fully missing row
    missing[5:20] = False
    return make_table(x, missing & holes)


def start(model, method, seed=0):
    cls, made = registry.MODELS.load(model), registry.METHODS.load(WAYS.get(method, method))
    fresh = cls.build(cls.Config(**SMALL_MODELS.get(model, {}), **made.fixed), Layout.plain(4)).double()
    small = SMALL.get(method, {"epochs": 4})
    if "latent" in registry.MODELS[model].provides:
        small = SMALL_LATENT.get(method, small)
    config = made.Config.model_validate(merged(cls.method_defaults.get(WAYS.get(method, method), {}), small))
    rows = table(method not in COMPLETE)
    rows = rows._replace(layout=BLOCKS.get(method, rows.layout))
    return made, made.init(fresh, rows, config, torch.Generator().manual_seed(seed))


def events(made, state):
    return list(made.run(state, never))


def copies(parts):
    return {stem: {key: value.clone() for key, value in tensors.items()} for stem, tensors in parts.items()}


@every
def test_interrupted_and_resumed_equals_uninterrupted(model, method):
    made, whole = start(model, method)
    parts = [copies(whole.parts()) for _ in made.run(whole, never)]
    count = len(parts)
    for stop in {1, count // 2}:
        _, resumed = start(model, method, seed=7)
        resumed.restore(parts[stop - 1])
        events(made, resumed)
        for stem, tensors in whole.parts().items():
            again = resumed.parts()[stem]
            assert tensors.keys() == again.keys()
            assert all(torch.equal(value, again[key]) for key, value in tensors.items()), (stem, stop)


@every
def test_parts_are_tensors_that_do_not_share_memory_with_the_state(model, method):
    made, state = start(model, method)
    before = {k: v.clone() for k, v in state.parts()["model"].items()}
    kept = state.parts()
    assert {"model", "state"} <= kept.keys() <= {"model", "conditionals", "imputations", "state"}
    events(made, state)
    assert all(torch.equal(value, kept["model"][key]) for key, value in before.items())


@every
def test_every_parameter_learns(model, method):
    made, state = start(model, method)
    parameters = {f"model: {key}" for key, p in state.model.named_parameters() if p.numel()}

    def learnt():
        parts = {f"{stem}: {key}": value for stem, part in state.parts().items() for key, value in part.items()}
        return {key: v.clone() for key, v in parts.items() if key in parameters or key.startswith("conditionals: ")}

    before = learnt()
    assert parameters <= before.keys()
    events(made, state)
    assert [key for key, value in learnt().items() if torch.equal(value, before[key])] == []


@every
def test_events_end_at_the_last_epoch_of_a_state_that_was_whole_when_it_was_built(model, method):
    made, state = start(model, method)
    whole = vars(state).keys() | set()
    seen = events(made, state)
    assert vars(state).keys() == whole
    assert all(isinstance(event, (StepEnd, EpochEnd)) for event in seen)
    ends = [event for event in seen if isinstance(event, EpochEnd)]
    assert ends[-1].epoch == state.epoch <= state.epochs
    assert isinstance(state.model, Model)


@every
def test_registry_says_what_the_method_makes(model, method):
    _, state = start(model, method)
    made = {stem for stem in state.parts() if stem in {"conditionals", "imputations"}}
    assert made == set(registry.METHODS[WAYS.get(method, method)].provides)


@every
def test_tuning_changes_copies_of_what_is_amortised_alone(model, method):
    made, state = start(model, method)
    if made.tune is None:
        return
    events(made, state)
    before = state.parts()
    rows = table().rows(torch.arange(40))._replace(layout=BLOCKS.get(method, table().layout))
    box = torch.tensor([[-3.0] * 4, [3.0] * 4], dtype=torch.float64)
    objectives = []
    for _ in range(2):
        tuned, seen = made.tune(state, rows, box, torch.Generator().manual_seed(1), 3)
        objectives.append([e.metrics["objective"] for e in seen if isinstance(e, EpochEnd)])
    assert len(objectives[0]) == 3 and objectives[0] == objectives[1]
    own = dict(state.model.named_parameters())
    learnt = {name for name, p in tuned.model.named_parameters() if not torch.equal(p, own[name])}
    encoder = set(map(id, tuned.model.encoder_parameters())) if isinstance(tuned.model, Latent) else set()
    assert learnt == {name for name, p in tuned.model.named_parameters() if id(p) in encoder}
    for stem, tensors in state.parts().items():
        assert all(torch.equal(value, before[stem][key]) for key, value in tensors.items()), stem
