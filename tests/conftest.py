"""Set before torch is loaded: every process of the tests computes on one thread, since the tests themselves are spread
over the cores. No example of a property test has a time limit: machines are shared."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

settings.register_profile("shared", deadline=None)
settings.load_profile("shared")


@pytest.fixture(autouse=True)
def short_refits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refits by gradients of two steps instead of a hundred, but in tests marked `full_refits`."""
    if "full_refits" not in request.keywords:
        monkeypatch.setattr("vgi_cli.methods.reweighted.EPOCHS", 1)
        monkeypatch.setattr("vgi_cli.methods.reweighted.STEPS", 2)
