"""Set before torch is loaded: every process of the tests computes on one thread, since the tests themselves are spread
over the cores. No example of a property test has a time limit: machines are shared; examples are few, and others each
time (runs of slow tests look at more). Fits, comparisons of models and draws are short, and no file is forced to the
disk: a test that needs what users have says so by its marker. Signals that whoever started the tests has set to be
ignored (`nohup`, a script's background) act as usual: the program leaves them alone."""

import contextlib
import copy
import gc
import importlib
import os
import pkgutil
import signal
from collections.abc import Generator, Iterator
from typing import Any, get_args

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads of a test's own would take the cores of other tests
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import numpy as np
import pytest
import torch
from hypothesis import settings

settings.register_profile("shared", deadline=None, max_examples=15)
settings.register_profile("thorough", deadline=None)
settings.load_profile("shared")


def pytest_configure(config: pytest.Config) -> None:
    """Runs that ask for slow tests look at more examples."""
    if asks_for_slow(config):
        settings.load_profile("thorough")


def asks_for_slow(config: pytest.Config) -> bool:
    """Whether slow tests run too."""
    return "slow" in config.option.markexpr.replace("not slow", "")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None]:
    """What was imported and collected stays until the end, and is not looked through again for what is garbage: that
    took a sixth of the time."""
    gc.disable()
    import_share(session.config)
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


def import_share(config: pytest.Config) -> None:
    """Each of several processes of the tests imports its share of the files first: what pytest makes of their asserts
    (most of the time of collecting) the others find beside the file. What does not import, pytest says."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        folders = [path for path in (config.rootpath / argument for argument in config.args) if path.is_dir()]
        files = sorted({file for folder in folders for file in folder.rglob("test_*.py")})
        for file in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


SHORT = {
    "methods.reweighted.EPOCHS": 1,  # refits by gradients
    "methods.reweighted.STEPS": 2,
    "methods.reweighted.COMMON": 2,
    "fitting.refits.COUNT": 3,  # refits by EM: how many, and nats a parameter at which they have settled
    "methods.em.bootstrap.TOLERANCE": 5e-2,
    "methods.em.bootstrap.ANEW_TOLERANCE": 5e-2,
    "fitting.contest.scoring.FOLDS": 2,  # a comparison of models
    "fitting.contest.scoring.HIDDEN_PARTS": 1,
    "fitting.contest.judges.EPOCHS": 2,
    "fitting.trial.SECONDS": 0.01,  # for which a trial of a model measures its time
    "methods.em.sizing.EPOCHS": 1,  # the choice of a size
    "methods.em.sizing.FOLDS": 2,
    "methods.start.ITERATIONS": 2,  # the quick fit from which others start
    "methods.em.em.REDRAWS": 2,  # of rounded cells in a fit, and sweeps in each
    "models.gaussian.rounded.SWEEPS": 2,
    "models.gaussian.fa.FactorAnalysis.tolerance": 1e-3,  # nats a row at which EM has converged
    "models.gaussian.mixture.GaussianMixture.tolerance": 1e-3,
    "samplers.lengths.MOST_ROUNDS": 20,  # chains that draw
    "samplers.latent.SWEEPS": 10,
    "evaluation.imputation.DIRECTIONS": 5,  # of projections of which the distances are averaged
}
"""Settings of fits, comparisons of models and draws in tests that are not marked `full_fits`."""

LESS_SHORT = {
    "fitting.refits.COUNT": 5,
    "methods.em.bootstrap.TOLERANCE": 1e-2,
    "methods.em.bootstrap.ANEW_TOLERANCE": 1e-2,
    "fitting.contest.judges.EPOCHS": 3,
    "fitting.trial.SECONDS": 0.02,
    "methods.em.sizing.EPOCHS": 2,
    "methods.start.ITERATIONS": 4,
    "models.gaussian.fa.FactorAnalysis.tolerance": 1e-4,
    "models.gaussian.mixture.GaussianMixture.tolerance": 1e-4,
    "samplers.lengths.MOST_ROUNDS": 40,
    "samplers.latent.SWEEPS": 20,
    "evaluation.imputation.DIRECTIONS": 10,
}
"""Those of them that are others where slow tests run, in which it matters more often how well a fit has settled."""


@pytest.fixture(autouse=True, scope="session")
def short_fits(request: pytest.FixtureRequest) -> Iterator[dict[str, float]]:
    """Short fits, comparisons and draws; gives what they are for users."""
    usual = {name: pkgutil.resolve_name(f"vgi_cli.{name}") for name in SHORT}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (SHORT | (LESS_SHORT if asks_for_slow(request.config) else {})).items():
            patch.setattr(f"vgi_cli.{name}", value)
        yield usual


@pytest.fixture(autouse=True, scope="session")
def compiled_loops(request: pytest.FixtureRequest) -> None:
    """Each of several processes of the tests compiles its share of the loops, which the others load from the cache:
    most of them are asked for in the first minute, by all processes at once, and each would compile them all."""
    worker = getattr(request.config, "workerinput", None)
    if worker is not None:
        from vgi_cli.maths import compiled

        for name in get_args(compiled.Loop)[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
            compiled.kernel(name)


@pytest.fixture(autouse=True)
def full_fits(request: pytest.FixtureRequest, short_fits: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings as they are for users in tests marked so: all, or those that the markers of a test and its file name."""
    markers = list(request.node.iter_markers("full_fits"))
    for name in short_fits:
        if any(not marker.args or name in marker.args for marker in markers):
            monkeypatch.setattr(f"vgi_cli.{name}", short_fits[name])


STATES: dict[str, dict[str, Any]] = {}
"""Where each module's generators stood when it had been imported."""


@pytest.fixture(autouse=True)
def same_numbers(request: pytest.FixtureRequest) -> None:
    """Each test draws from torch's generator and its module's what it draws when it runs alone: which tests ran before
    it in the same process is left to chance. (`torch.manual_seed` would write down the whole stack, three times, for
    devices that are not in use.)"""
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)
    drawn = {name: g for name, g in vars(request.module).items() if isinstance(g, np.random.Generator)}
    at_import = STATES.setdefault(
        request.module.__name__, {name: copy.deepcopy(g.bit_generator.state) for name, g in drawn.items()}
    )
    for name, state in at_import.items():
        drawn[name].bit_generator.state = copy.deepcopy(state)


@pytest.fixture
def refits_serve_again(short_fits: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws use the refits of a run again, up to as many draws as the fits of users have refits: no more are made."""
    monkeypatch.setattr("vgi_cli.fitting.refits.COUNT", short_fits["fitting.refits.COUNT"])


@pytest.fixture
def two_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the models that EM fits the first two are compared, where it matters that they are and not which."""
    from vgi_cli.fitting.contest import contest

    every = contest.candidates
    monkeypatch.setattr(contest, "candidates", lambda *given: every(*given)[:2])


@pytest.fixture(autouse=True, scope="session")
def unsynced_files() -> Iterator[None]:
    """Files reach the disk when the machine likes: no test takes its power away (tests/faults/ does so within the
    processes that it starts)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield
