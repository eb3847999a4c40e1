"""Set before torch is loaded: every process of the tests computes on one thread, since the tests themselves are spread
over the cores. No example of a property test has a time limit: machines are shared. Refits are few and short, and no
file is forced to the disk: a test that needs what users have says so by its marker."""

import os
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


REFIT = {"reweighted.EPOCHS": 1, "reweighted.STEPS": 2, "reweighted.COMMON": 2, "refits.COUNT": 5}
"""How long refits by gradients are, and how many, and how many refits by EM there are, in tests that are not marked
`full_refits`."""


@pytest.fixture(autouse=True, scope="session")
def short_refits() -> Iterator[dict[str, int]]:
    """Few refits, those by gradients of few steps; gives what they are for users."""
    from vgi_cli.fitting import refits
    from vgi_cli.methods import reweighted

    files = {"reweighted": reweighted, "refits": refits}
    usual = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in REFIT.items():
            file, setting = name.split(".")
            usual[name] = getattr(files[file], setting)
            patch.setattr(files[file], setting, value)
        yield usual


@pytest.fixture(autouse=True)
def full_refits(request: pytest.FixtureRequest, short_refits: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Refits as many and as long as they are for users, in tests marked so."""
    if "full_refits" in request.keywords:
        for name, value in short_refits.items():
            part = "methods" if name.startswith("reweighted") else "fitting"
            monkeypatch.setattr(f"vgi_cli.{part}.{name}", value)


@pytest.fixture(autouse=True, scope="session")
def unsynced_files() -> Iterator[None]:
    """Files reach the disk when the machine likes: no test takes its power away (tests/faults/ does so within the
    processes that it starts)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield
