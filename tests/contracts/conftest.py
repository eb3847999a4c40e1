"""`pytest tests/contracts --vgi-plugin FILE.py`: the suites also judge what a plugin registers."""

from __future__ import annotations

import pytest

from vgi_cli.registry.plugins import plugged


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--vgi-plugin", action="append", default=[], help="plugin whose models and methods are tested too")


def pytest_configure(config: pytest.Config) -> None:
    """Before the suites look into the registry; the names stay for the whole session."""
    context = plugged(config.getoption("vgi_plugin", default=[]))
    context.__enter__()
    config.add_cleanup(lambda: context.__exit__(None, None, None))
