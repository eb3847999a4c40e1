"""benchmarks/paper.py: all it fits can be fitted, it goes on where it stopped, its tables hold what it measured."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vgi_cli.run.config import gather
from vgi_cli.run.plan import make_plan

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))
import paper_families as families  # noqa: E402


def every_fit() -> Iterator[tuple[str, families.Fit]]:
    for name, make in families.FAMILIES.items():
        family = make()
        for title, way in family.ways.items():
            for k in (families.COMPLETE,) if title in family.complete else family.sixths:
                yield f"{name}, {title}, {k}/6", way(k)


@pytest.mark.parametrize(("title", "fit"), list(every_fit()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_fit_of_every_experiment_is_possible(title: str, fit: families.Fit) -> None:
    flags = {"data": (["table.csv"], "DATA"), "model.name": (fit.model, "model"), "method.name": (fit.method, "method")}
    flags |= {key: (value, "set") for key, value in fit.settings.items()}
    plan = make_plan(gather(flags, recipe=fit.recipe))
    assert (plan.recipe.model["name"], plan.recipe.method["name"]) == (fit.model, fit.method)


def test_published_figures_belong_to_methods() -> None:
    for make in families.FAMILIES.values():
        family = make()
        assert family.published.keys() <= family.ways.keys()
        for name, by_k in family.published.items():
            expected = {families.COMPLETE} if name in family.complete else set(family.sixths)
            assert by_k.keys() <= expected


def paper(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "benchmarks/paper.py", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_an_experiment_is_repeated_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    make = [sys.executable, "benchmarks/make_toy.py", tmp_path, "--rows", 300, "--test-rows", 50, "--masks", 2]
    assert subprocess.run(list(map(str, make)), cwd=ROOT, check=False, capture_output=True).returncode == 0
    choice = ["toy-fa", tmp_path, "--sixths", 1, 5, "--masks", 2]
    first = paper(*choice, "--methods", "em")
    assert first.returncode == 0, first.stderr
    assert len([line for line in first.stdout.splitlines() if line.startswith("toy-fa-em-")]) == 4
    kept = tmp_path / "figures" / "toy-fa-em-1-2.json"
    one = json.loads((tmp_path / "figures" / "toy-fa-em-1-1.json").read_text())["kl"]
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"kl": one + 2.0}))  # must be read, not made anew
    again = paper(*choice, "--methods", "em", "complete", "--epochs", "1")
    assert again.returncode == 0, again.stderr
    assert [line.split(":")[0] for line in again.stdout.splitlines() if ": kl" in line] == [
        "toy-fa-complete-0-1",
        "toy-fa-complete-0-2",
    ]
    assert f"| em | {one + 1.0:.4g} ± 1 (2) |" in (tmp_path / "toy-fa.md").read_text()
    assert "| em, published | 0.00167 | 0.03194 |" in again.stdout
    values = json.loads((tmp_path / "toy-fa.json").read_text())
    assert values["em"]["1"][0]["kl"] == one and 0 < values["complete"]["0"][0]["kl"] < 0.5
    short = paper("toy-fa", tmp_path, "--sixths", 1, "--masks", 1, "--methods", "vgi gibbs", "--epochs", "0.02")
    assert ", 3 epochs, " in short.stdout, short.stderr  # of the recipe's 150
    refused = paper("toy-fa", tmp_path, "--sixths", 1, "--masks", 1, "--methods", "em", "--epochs", "0.5")
    assert refused.returncode != 0 and "'em' has no number of epochs to multiply" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["toy-fa", "nothing"], "no table 'nothing/train-1-1.parquet': make the tables first"),
        (["toy-fa", "nothing", "--methods", "magic"], "unknown method 'magic': toy-fa has em, vgi gibbs,"),
    ],
)
def test_refusals(arguments: list[str], says: str) -> None:
    done = paper(*arguments)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
