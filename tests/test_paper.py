"""benchmarks/paper.py: all it fits can be fitted, it goes on where it stopped, its tables hold what it measured."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import module, script
from vgi_cli.fitting.plan import make_plan
from vgi_cli.methods.plmcmc import PlmcmcConfig, round_before
from vgi_cli.settings.gather import gather

families: Any = module("paper_families")


def every_fit() -> Iterator[tuple[str, Any]]:
    for name, make in families.FAMILIES.items():
        family = make()
        for title, way in family.ways.items():
            for k in (families.COMPLETE,) if title in family.complete else family.sixths:
                yield f"{name}, {title}, {k}/6", way(k)


@pytest.mark.parametrize(("title", "fit"), list(every_fit()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_fit_of_every_experiment_is_possible(title: str, fit: Any) -> None:
    flags = {"data": (["table.csv"], "DATA"), "model.name": (fit.model, "model"), "method.name": (fit.method, "method")}
    flags |= {key: (value, "set") for key, value in fit.settings.items()}
    plan = make_plan(gather(flags, recipe=fit.recipe))
    assert (plan.model.name, plan.method.name) == (fit.model, fit.method)


@pytest.mark.parametrize(
    ("name", "totals"),
    [
        ("power", (10_300, 10_250, 16_250)),
        ("gas", (13_000, 13_000, 21_500)),
        ("hepmass", (12_500, 12_500, 17_500)),
        ("miniboone", (28_500, 28_500, 57_000)),
    ],
)
def test_rounds_of_plmcmc_have_the_authors_steps(name: str, totals: tuple[int, ...]) -> None:
    """Metropolis steps of a chain in all, at 1/6, 3/6 and 5/6 missing."""
    for k, total in zip((1, 3, 5), totals, strict=True):
        fit = families.FAMILIES[name]().ways["plmcmc"](k)
        settings = {key.partition(".")[2]: value for key, value in fit.settings.items() if key.startswith("method.")}
        config = PlmcmcConfig.model_validate_json(json.dumps(settings))
        assert sum(round_before(config, epoch, fit.epochs).steps for epoch in range(fit.epochs)) == total


def test_published_figures_belong_to_methods() -> None:
    for make in families.FAMILIES.values():
        family = make()
        assert family.published.keys() <= family.ways.keys()
        for name, by_k in family.published.items():
            expected = {families.COMPLETE} if name in family.complete else set(family.sixths)
            assert by_k.keys() <= expected


@pytest.mark.slow
def test_an_experiment_is_repeated_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    assert script("make_toy", tmp_path, "--rows", 300, "--test-rows", 50, "--masks", 2, "--sixths", 1, 5).code == 0
    choice = ["toy-fa", tmp_path, "--sixths", 1, 5, "--masks", 2]
    first = script("paper", *choice, "--methods", "em")
    assert first.code == 0, first.err
    assert len([line for line in first.out.splitlines() if line.startswith("toy-fa-em-")]) == 4
    kept = tmp_path / "figures" / "toy-fa-em-1-2.json"
    one = json.loads((tmp_path / "figures" / "toy-fa-em-1-1.json").read_text())["kl"]
    kept.write_text(json.dumps(json.loads(kept.read_text()) | {"kl": one + 2.0}))  # must be read, not made anew
    again = script("paper", *choice, "--methods", "em", "complete", "--epochs", "1")
    assert again.code == 0, again.err
    assert [line.split(":")[0] for line in again.out.splitlines() if ": kl" in line] == [
        "toy-fa-complete-0-1",
        "toy-fa-complete-0-2",
    ]
    assert f"| em | {one + 1.0:.4g} ± 1 (2) |" in (tmp_path / "toy-fa.md").read_text()
    assert "| em, published | 0.00167 | 0.03194 |" in again.out
    values = json.loads((tmp_path / "toy-fa.json").read_text())
    assert values["em"]["1"][0]["kl"] == one and 0 < values["complete"]["0"][0]["kl"] < 0.5
    single = ["toy-fa", tmp_path, "--sixths", 1, "--masks", 1]
    short = script("paper", *single, "--methods", "vgi gibbs", "--epochs", "0.02")
    assert ", 3 epochs, " in short.out, short.err  # of the recipe's 150
    figure = tmp_path / "figures" / "toy-fa-vgi-gibbs-1-1-0.02.json"
    before = json.loads(figure.read_text())
    figure.unlink()  # as after an interruption: the run is gone on with, and its cost is not known
    more = script("paper", *single, "--methods", "vgi gibbs", "--epochs", "0.02")
    after = json.loads(figure.read_text())
    assert more.code == 0 and "| vgi gibbs |  |" in more.out
    assert (after["cpu"], after["kl"]) == (None, before["kl"])
    figure.write_text(json.dumps(after | {"made_by": "others"}))
    other = script("paper", *single, "--methods", "vgi gibbs", "--epochs", "0.02")
    assert other.code != 0 and "was made with other settings: remove it" in other.err
    for name in ("toy-fa.png", "toy-fa-cost.png"):
        assert (tmp_path / name).exists() == (find_spec("matplotlib") is not None)
    refused = script("paper", *single, "--methods", "em", "--epochs", "0.5")
    assert refused.code != 0 and "'em' has no number of epochs to multiply" in refused.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["toy-fa", "nothing"], "no table 'nothing/train-1-1.parquet': make the tables first"),
        (["toy-fa", "nothing", "--methods", "magic"], "unknown method 'magic': toy-fa has em, vgi gibbs,"),
    ],
)
def test_refusals(arguments: list[str], says: str) -> None:
    done = script("paper", *arguments)
    assert done.code == 2 and says in done.err and "Traceback" not in done.err
