"""Whether rows of a contest show that columns say anything of each other, and what is said where they do not."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from tests.fitting.test_contest import fit, holes, normal, recipe, rows, scored
from vgi_cli.errors import VgiWarning
from vgi_cli.fitting.contest import evidence, scoring
from vgi_cli.fitting.contest.evidence import chance_of_gain, chance_of_pairs, is_lacking, losses_alone

LINE = "no model is seen to fill hidden cells better than each column alone would"


def table(n: int, seed: int, effect: float) -> pd.DataFrame:
    """A rare response that depends on a number and an arm; a fourth of its cells, and of the number's, are missing."""
    rng = np.random.default_rng(seed)
    age, arm = rng.normal(size=n), rng.random(n) < 0.5
    chance = 1 / (1 + np.exp(1.2 - effect * (age + arm)))
    frame = pd.DataFrame({"age": age.round(2), "response": np.where(rng.random(n) < chance, "yes", "no")})
    return frame.mask(rng.random(frame.shape) < 0.25).assign(arm=np.where(arm, "new", "usual"))


def test_losses_alone_are_on_average_what_the_column_alone_would_score() -> None:
    encoded = rows(table(200, 1, 0.0), recipe("mixture"))
    found, columns = losses_alone(encoded), scoring.columns_of(encoded)
    assert torch.equal(found.isnan(), encoded.table.layout.of_columns(encoded.table.missing))
    assert found.nanmean(0).tolist() == pytest.approx([column.alone for column in columns], rel=1e-6)
    response, age = table(200, 1, 0.0)["response"].to_numpy(), table(200, 1, 0.0)["age"].to_numpy()
    rare, common = (float(found[torch.tensor(response == level), 1].mean()) for level in ("yes", "no"))
    assert rare > 2 * common  # a rare level is hard to guess, whatever the model
    first = int(np.flatnonzero(~np.isnan(age))[0])
    others = np.delete(age, first)[~np.isnan(np.delete(age, first))]
    known = np.append(others, age[first])
    half = np.abs(known[:, None] - known).sum() / (len(known) * (len(known) - 1)) / 2
    assert float(found[first, 0]) == pytest.approx(np.abs(age[first] - others).mean() - half, abs=1e-5)


def test_a_gain_is_found_in_all_columns_together_and_in_one_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    alone = torch.rand(400, 4, generator=generator).double() + 0.1
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(400, 4)), columns=list("abcd"))
    found = scored(frame, recipe("mixture", components=1))
    even = torch.ones(400, 4).double()

    def chance(*gains: float) -> float:
        noise = torch.randn(400, 4, generator=generator).double()
        return chance_of_gain(
            found._replace(losses=alone - torch.tensor(gains) - 0.5 * (noise - noise.mean(0))), alone, even
        )

    assert chance(0.0, 0.0, 0.0, 0.0) == 1.0
    assert chance(0.1, 0.1, 0.1, 0.1) < 1e-6
    assert chance(0.15, -0.1, -0.1, -0.1) < 1e-6  # all together lose
    assert chance(-0.1, -0.1, -0.1, -0.1) == 1.0
    nothing = found._replace(losses=torch.full((400, 4), torch.nan).double())
    assert chance_of_gain(nothing, alone, even) == 1.0


def test_pairs_of_columns_are_judged_by_the_tests_of_their_kinds() -> None:
    rng = np.random.default_rng(2)
    one = rng.choice(["p", "q", "r"], 300)
    frame = pd.DataFrame({"a": one, "b": np.where(rng.random(300) < 0.2, one, rng.choice(["p", "q", "r"], 300))})
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    counts = pd.crosstab(frame.a, frame.b).to_numpy()
    assert chance_of_pairs(rows(frame, recipe("mixture"))) == pytest.approx(
        stats.chi2_contingency(counts, correction=False).pvalue, rel=1e-6
    )
    x = rng.normal(size=300)
    numbers = pd.DataFrame({"x": x, "y": 0.15 * x + rng.normal(size=300)}).mask(rng.random((300, 2)) < 0.1)
    both = numbers.dropna()
    r = float(np.corrcoef(both.x, both.y)[0, 1])
    assert chance_of_pairs(rows(numbers, recipe("mixture"))) == pytest.approx(
        stats.chi2.sf(len(both) * r**2, 1), rel=1e-4
    )
    rare = pd.DataFrame({"a": ["p"] * 295 + ["q"] * 5, "x": [0.0, 1.0] * 147 + [0.0] + [9.0] * 4 + [np.nan]})
    assert chance_of_pairs(rows(rare, recipe("mixture"))) == 1.0  # no second level of FEWEST rows
    whole = numbers.dropna()
    assert chance_of_pairs(rows(whole, recipe("mixture"))) == 1.0  # nothing is to be filled


def test_of_many_columns_some_are_looked_at_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    frame["b"] = frame["a"]
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    encoded = rows(frame, recipe("mixture"))
    assert chance_of_pairs(encoded) < 1e-6
    monkeypatch.setattr(evidence, "MOST", 2)  # a and c
    assert chance_of_pairs(encoded) > 1e-3


@pytest.mark.slow
def test_evidence_is_lacking_where_columns_are_independent_and_nowhere_else() -> None:
    found = {}
    for effect, count in ((0.0, 12), (1.0, 4)):
        every = [table(300, seed, effect) for seed in range(count)]
        encoded = [rows(frame, recipe("mixture")) for frame in every]
        found[effect] = [
            is_lacking(scored(frame, recipe("mixture", components=1)), one, torch.ones(300, 3).double())
            for frame, one in zip(every, encoded, strict=True)
        ]
    assert sum(found[0.0]) >= 8  # of 12, a tenth of which is found by chance at most: 8 or more in 0.996 of cases
    assert not any(found[1.0])


@pytest.mark.full_fits("fitting.contest.scoring.HIDDEN_PARTS")
def test_a_score_above_one_is_no_warning_where_columns_go_together(tmp_path: Path) -> None:
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VgiWarning)
        linear = {"table.transform": "linear"}
        league, _ = fit(table(250, 8, 0.45), tmp_path / "run", linear, say=said.append)
        assert min(one["cells"] for one in league["candidates"]) > 1  # by chance
        assert not any(LINE in line for line in said)
        league, _ = fit(holes(normal(60, 0, 0.0), 0.2, 1), tmp_path / "alone", linear, say=said.append)
    assert min(one["cells"] for one in league["candidates"]) > 1 and any(LINE in line for line in said)
