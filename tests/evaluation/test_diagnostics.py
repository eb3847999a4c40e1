"""What is said about the chains of an imputer."""

from __future__ import annotations

from vgi_cli.evaluation.report import remarks


def test_remarks() -> None:
    fine = {"acceptance_by_column": {"a": 0.9}, "memory": 0.1, "extended": 0.0}
    assert remarks(fine) == [] and remarks({}) == []
    found = remarks({"acceptance_by_column": {"a": 0.9, "b": 0.15, "c": 0.05}, "memory": 0.5, "extended": 0.75})
    assert len(found) == 3
    assert "fills of 2 columns rarely move away" in found[0] and "(worst: 'c', 5% of" in found[0]
    assert "where their chains started (correlation 0.50" in found[1]
    assert "75% of the chains were made longer" in found[2]
