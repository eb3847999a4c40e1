"""The program as a fixture."""

from tests.program import vgi

__all__ = ["vgi"]
