"""docs/tutorial.md: all of its blocks run, in their order, and give what it shows."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vgi_cli
from tests.program import Vgi, vgi

__all__ = ["vgi"]

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
LONGEST = 150
QUICK = ["--model", "mixture", "--set", "model.components=3", "--set", "bootstrap=none", "--set", "trees=none"]


def blocks() -> Iterator[tuple[str, str]]:
    """Language and text of each block."""
    yield from re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.S | re.M)


def shown(number: int) -> list[str]:
    """Lines of the n-th text block, from 0."""
    return [text for language, text in blocks() if language == "text"][number].splitlines()


def numbers(line: str) -> list[float]:
    """The numbers in a row of a table."""
    return [float(number) for number in re.findall(r"(?<=[| ])-?\d+(?:\.\d+)?(?= )", line)]


def test_the_page_is_short_and_has_every_step() -> None:
    assert len(PAGE.splitlines()) <= LONGEST
    commands = [shlex.split(text)[1] for language, text in blocks() if language == "sh"]
    assert commands == ["check", "fit", "report", "impute", "pool"]


def test_its_blocks_run_with_a_quick_fit(vgi: Vgi) -> None:
    """In this process, with a model that is named, without refits and without the report."""
    shutil.copytree(ROOT / "sample_data", "sample_data")
    names: dict[str, Any] = {}
    for language, text in blocks():
        if language == "python":
            exec(text, names)
        elif language == "sh":
            (words,) = [shlex.split(line)[1:] for line in text.splitlines()]
            if words[0] == "report":  # takes long
                continue
            result = vgi(*words, *(QUICK if words[0] == "fit" else []))
            assert result.code == 0, result.err
            if words[0] == "check":
                assert [line for line in shown(0) if line not in result.out] == []
            if words[0] == "impute":
                assert shown(1)[0] in result.err
    pooled = names["pooled"]
    assert pooled.m == 20 and result.out == str(pooled)
    assert 0.05 < pooled.table.loc["male", "estimate"] < 0.25


@pytest.mark.slow
def test_its_blocks_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In processes of their own, as a reader runs them; the table is the one that it shows, to what a machine may
    change in the draws."""
    pytest.importorskip("matplotlib", reason="the extra `report` is not installed")
    shutil.copytree(ROOT / "sample_data", tmp_path / "sample_data")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "vgi"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vgi_cli "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    paths = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {
        "PATH": paths,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "VGI_THREADS": "1",
    }
    code = "".join(
        text if language == "python" else f"import subprocess\nsubprocess.run({text!r}, shell=True, check=True)\n"
        for language, text in blocks()
        if language != "text"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in shown(0) if line not in done.stdout] == []
    assert shown(1)[0] in done.stderr
    assert (tmp_path / "birds" / "report.html").is_file()
    monkeypatch.chdir(tmp_path)
    verdicts = vgi_cli.report("birds")["runs"][0]["verdicts"]
    assert {verdict["level"] for verdict in verdicts} <= {"good", "unknown"}
    stated = {line.split()[1]: numbers(line) for line in shown(2)[4:]}
    found = {line.split()[1]: numbers(line) for line in done.stdout.splitlines() if line.startswith("| ")}
    for term, (estimate, error, *_) in stated.items():
        assert found[term][0] == pytest.approx(estimate, abs=error / 4), term
        assert found[term][1] == pytest.approx(error, rel=0.1), term
