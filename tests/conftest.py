"""Set before torch is loaded: every process of the tests computes on one thread, since the tests themselves are spread
over the cores. No example of a property test has a time limit: machines are shared. Refits and comparisons of models
are short, and no file is forced to the disk: a test that needs what users have says so by its marker. Signals that
whoever started the tests has set to be ignored (`nohup`, a script's background) act as usual: the program leaves them
alone."""

import gc
import os
import signal
from collections.abc import Generator, Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads of a test's own would take the cores of other tests
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import pytest
from hypothesis import settings

settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """What was imported and collected stays until the end, and is not looked through again for what is garbage: that
    took a sixth of the time."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


SHORT = {
    "methods.reweighted.EPOCHS": 1,
    "methods.reweighted.STEPS": 2,
    "methods.reweighted.COMMON": 2,
    "fitting.refits.COUNT": 5,
    "fitting.contest.scoring.FOLDS": 2,
    "fitting.contest.judges.EPOCHS": 3,
    "fitting.contest.scoring.HIDDEN_PARTS": 1,
    "fitting.trial.SECONDS": 0.02,
    "methods.em.sizing.EPOCHS": 2,
    "methods.em.sizing.FOLDS": 2,
    "methods.start.ITERATIONS": 4,
}
"""How long refits by gradients are, and how many, how many refits by EM there are, how many folds a comparison of
models has, how long EM runs in it and how many parts of the cells it hides, how long a trial of a model measures its
time, how long EM runs where it chooses a size, and on how many folds, and how long the quick fit is from which EM
starts, in tests that are not marked `full_fits`."""


@pytest.fixture(autouse=True, scope="session")
def short_fits() -> Iterator[dict[str, float]]:
    """Short refits and comparisons; gives what they are for users."""
    from vgi_cli.fitting import refits, trial
    from vgi_cli.fitting.contest import judges, scoring
    from vgi_cli.methods import reweighted, start
    from vgi_cli.methods.em import sizing

    files = {
        "reweighted": reweighted,
        "refits": refits,
        "scoring": scoring,
        "judges": judges,
        "trial": trial,
        "sizing": sizing,
        "start": start,
    }
    usual = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SHORT.items():
            *_, file, setting = name.split(".")
            usual[name] = getattr(files[file], setting)
            patch.setattr(files[file], setting, value)
        yield usual


@pytest.fixture(autouse=True)
def full_fits(request: pytest.FixtureRequest, short_fits: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Refits and comparisons as they are for users, in tests marked so; where the marker names settings, these alone."""
    marker = request.node.get_closest_marker("full_fits")
    if marker is not None:
        for name in marker.args or short_fits:
            monkeypatch.setattr(f"vgi_cli.{name}", short_fits[name])


@pytest.fixture
def refits_serve_again(short_fits: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws use the refits of a run again, up to as many draws as the fits of users have refits: no more are made."""
    monkeypatch.setattr("vgi_cli.fitting.refits.COUNT", short_fits["fitting.refits.COUNT"])


@pytest.fixture(autouse=True, scope="session")
def unsynced_files() -> Iterator[None]:
    """Files reach the disk when the machine likes: no test takes its power away (tests/faults/ does so within the
    processes that it starts)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield
