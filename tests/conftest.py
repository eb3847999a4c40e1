"""Set before torch is loaded: every process of the tests computes on one thread, since the tests themselves are spread
over the cores. No example of a property test has a time limit: machines are shared."""

import os
from collections.abc import Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


REFIT = {"EPOCHS": 1, "STEPS": 2, "COMMON": 2}
"""How long refits by gradients are, and how many, in tests that are not marked `full_refits`."""


@pytest.fixture(autouse=True, scope="session")
def short_refits() -> Iterator[dict[str, int]]:
    """Few refits by gradients, of few steps; gives what they are for users."""
    from vgi_cli.methods import reweighted

    usual = {name: getattr(reweighted, name) for name in REFIT}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in REFIT.items():
            patch.setattr(reweighted, name, value)
        yield usual


@pytest.fixture(autouse=True)
def full_refits(request: pytest.FixtureRequest, short_refits: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Refits as long as they are for users, in tests marked so."""
    if "full_refits" in request.keywords:
        for name, value in short_refits.items():
            monkeypatch.setattr(f"vgi_cli.methods.reweighted.{name}", value)
