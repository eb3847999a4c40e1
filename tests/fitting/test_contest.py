"""`--model auto` compares candidates on rows that these have not seen, by hidden cells or by the log-likelihood."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from tests.clocks import ticking
from tests.selection import first
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.errors import VgiWarning
from vgi_cli.fitting import choosing
from vgi_cli.fitting.contest import contest, scoring
from vgi_cli.fitting.contest.average import average_words
from vgi_cli.fitting.contest.candidates import Candidate, candidates, counted
from vgi_cli.fitting.contest.league import LINES, League
from vgi_cli.fitting.contest.scoring import Folds, Scores
from vgi_cli.fitting.contest.standings import Standings, lags
from vgi_cli.fitting.rows import Rows, held_out, quiet_schema, rows_of
from vgi_cli.methods.em.sizing import Candidate as Sized
from vgi_cli.methods.em.sizing import ComparedRows, Sizing, choose_size
from vgi_cli.models.gaussian.mixture import MixtureConfig
from vgi_cli.settings.gather import load_recipe
from vgi_cli.settings.recipe import Averaged, ModelChoice, Recipe
from vgi_cli.table.frames import from_frame

QUICK = {"bootstrap": "none", "trees": "none"}


def normal(rows: int, seed: int, correlation: float = 0.9) -> pd.DataFrame:
    """Three normal columns with equal correlations."""
    rng = np.random.default_rng(seed)
    shared, own = rng.normal(size=(rows, 1)), rng.normal(size=(rows, 3))
    return pd.DataFrame(correlation**0.5 * shared + (1 - correlation) ** 0.5 * own, columns=["a", "b", "c"])


def holes(frame: pd.DataFrame, share: float, seed: int) -> pd.DataFrame:
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


def recipe(model: str, transform: str = "linear", **settings: object) -> Recipe:
    return Recipe(model=ModelChoice(model, settings)).with_method("em").with_table(transform=transform)


def rows(frame: pd.DataFrame, of: Recipe) -> Rows:
    table = from_frame(frame)
    return rows_of(table, quiet_schema(table, of), of.seed)


def scored(frame: pd.DataFrame, of: Recipe, known: Folds | None = None) -> Scores:
    encoded = rows(frame, of)
    generator = torch.Generator().manual_seed(0)
    columns = scoring.columns_of(encoded)
    parts = torch.randint(scoring.PARTS, (len(frame), len(columns)), generator=generator)
    fold = torch.randperm(len(frame), generator=generator) % scoring.FOLDS
    known = Folds({}, {}) if known is None else known
    even = torch.ones(parts.shape, dtype=torch.float64)
    *_, last = scoring.score(Candidate("one", of, encoded), columns, parts, fold, known, even)
    assert isinstance(last, Scores)
    return last


def fit(frame: pd.DataFrame, path: Path, more: dict | None = None, **options: object) -> tuple[dict, vgi_cli.Run]:
    run = vgi_cli.fit(frame, out=path, threads=1, set=QUICK | (more or {}), **options)
    file = path / "contest.json"
    return (json.loads(file.read_text()) if file.exists() else {}), run


# -- the scores ------------------------------------------------------------------------------------------------------


def test_a_candidate_scores_as_alone_beside_others_whose_folds_it_shares() -> None:
    frame, known = holes(normal(60, 1), 0.2, 2), Folds({}, {})
    scored(frame, recipe("mixture", components=2), known)
    assert set(known.starts) == set(known.coded_by) == {0, 1}
    fa = recipe("fa", factors=1)
    alone, beside = scored(frame, fa), scored(frame, fa, known)
    assert all(torch.equal(getattr(alone, name), getattr(beside, name)) for name in ("cells", "loglik"))


def test_what_a_column_alone_scores_is_the_mean_score_of_draws_from_it() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.exponential(size=60), "g": rng.choice(["p", "q", "r"], 60, p=[0.6, 0.3, 0.1])})
    frame.loc[:9, "x"] = np.nan
    first, second = scoring.columns_of(rows(frame, recipe("mixture")))
    x = frame["x"].dropna().to_numpy()
    pairs = np.abs(x[:, None] - x[None]).sum() / (len(x) * (len(x) - 1))
    assert first.levels == 0 and first.alone == pytest.approx(pairs / 2, rel=1e-6)
    g = torch.tensor(frame["g"].map({"p": 0.0, "q": 1.0, "r": 2.0}).to_numpy()).repeat(2_000)
    draws = g[torch.randint(60, (scoring.DRAWS, len(g)), generator=torch.Generator().manual_seed(0))]
    losses = scoring._losses(draws, g, 3)
    count = np.arange(scoring.DRAWS + 1)
    binomial = np.array([math.comb(scoring.DRAWS, k) for k in count]) / 2**scoring.DRAWS
    loss = -np.log((count + scoring.SMOOTHING) / (scoring.DRAWS + 2 * scoring.SMOOTHING))
    even = torch.tensor([0.5, 0.5]).double()
    assert scoring._levels_alone(even, 2) == pytest.approx((binomial * loss).sum())
    assert second.levels == 3 and second.alone == pytest.approx(float(losses.mean()), rel=0.01)  # 120,000 draws
    shares = torch.bincount(g.long()) / len(g)
    assert second.alone > -1.05 * float(shares @ shares.log())  # ten draws know less than the shares
    only = scoring.columns_of(rows(frame.assign(h=["a"] * 59 + ["b"]), recipe("mixture")))[2]
    assert 0 < only.alone < 0.15


def test_levels_score_minus_the_log_of_their_smoothed_share() -> None:
    draws = torch.tensor([[0.0], [1.0], [1.0], [2.0]])
    found = scoring._losses(draws, torch.tensor([1.0]), 3)
    assert found.item() == pytest.approx(-np.log((2 + scoring.SMOOTHING) / (4 + 3 * scoring.SMOOTHING)))


def test_the_scores_of_the_right_model_are_those_of_the_truth() -> None:
    """One Gaussian of normal columns: log-likelihood and CRPS are known in closed form."""
    N, r = 1_200, 0.9
    found = scored(normal(N, 0, r), recipe("mixture", components=1, covariance="full", outliers=False))
    covariance = np.full((3, 3), r) + (1 - r) * np.eye(3)
    expected = -0.5 * (3 * np.log(2 * np.pi * np.e) + np.linalg.slogdet(covariance)[1])
    error = float(found.loglik.std()) / N**0.5
    assert float(found.loglik.mean()) == pytest.approx(expected, abs=4 * error)
    # a quarter of the cells of a row is hidden at a time: given both others, one or none, the standard deviation is
    sds = {2: (1 - 2 * r**2 / (1 + r)) ** 0.5, 1: (1 - r**2) ** 0.5, 0: 1.0}
    shares = {2: 0.75**2, 1: 2 * 0.25 * 0.75, 0: 0.25**2}
    assert found.crps == pytest.approx(sum(shares[n] * sds[n] for n in sds), rel=0.05)
    assert found.coverage == pytest.approx(scoring.CALIBRATED, abs=0.02) and found.log_score is None
    assert float(found.cells.mean()) == pytest.approx(found.crps, rel=1e-9)


@pytest.mark.full_fits("fitting.contest.scoring.HIDDEN_PARTS")
def test_a_model_of_independent_columns_scores_one() -> None:
    rng = np.random.default_rng(1)
    frame = normal(600, 1, 0.0).assign(g=rng.choice(["p", "q"], 600))
    found = scored(frame, recipe("mixture", components=1, outliers=False))
    assert found.crps == pytest.approx(1.0, abs=0.03) and found.log_score == pytest.approx(1.0, abs=0.03)


def test_a_column_that_follows_from_another_scores_next_to_nothing() -> None:
    rng = np.random.default_rng(2)
    g = rng.choice(["p", "q"], 400)
    frame = pd.DataFrame({"g": g, "h": np.where(g == "p", "u", "v"), "k": g})
    found = scored(frame, recipe("mixture"))
    assert found.log_score is not None and found.log_score < 0.3 and found.crps is None and found.coverage is None


# -- who wins --------------------------------------------------------------------------------------------------------


def clusters(seed: int) -> pd.DataFrame:
    """Three clusters far apart: what bends the columns to normal tears them."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0, 0, 0], [6, 0, 8], [12, 9, 0]])[rng.integers(3, size=240)]
    return holes(pd.DataFrame(centres + rng.normal(size=(240, 3)), columns=["a", "b", "c"]), 0.2, seed)


def skewed(seed: int) -> pd.DataFrame:
    """Columns whose logarithms are normal."""
    return holes(np.exp(1.5 * normal(240, seed, 0.7)), 0.2, seed)


def test_a_table_of_categories_says_that_there_is_nothing_to_compare(tmp_path: Path) -> None:
    """Of which another number of clusters is not in question."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 200)
    drawn = {f"q{i}": np.where(rng.random(200) < 0.6, z, rng.integers(0, 5, 200)) for i in range(6)}
    frame = pd.DataFrame({name: np.array(list("abcde"))[column] for name, column in drawn.items()})
    told: list[str] = []
    vgi_cli.fit(frame.mask(rng.random(frame.shape) < 0.1), out=tmp_path / "run", set=QUICK, say=told.append)
    assert "one model alone suits this table: there is none to compare it with" in told
    assert not (tmp_path / "run" / "contest.json").exists()


def test_a_transform_that_changes_no_column_is_not_compared(tmp_path: Path) -> None:
    """Scales of five points are bent by either."""
    rng = np.random.default_rng(0)
    trait = rng.normal(size=(200, 1))
    scales = np.digitize(trait + rng.normal(size=(200, 4)), [-1.5, -0.5, 0.5, 1.5]) + 1.0
    league, _ = fit(holes(pd.DataFrame(scales, columns=list("abcd")), 0.2, 0), tmp_path / "run")
    assert {entry["transform"] for entry in league["candidates"]} == {"normal"}
    assert len(league["candidates"]) > 1


@pytest.mark.usefixtures("two_models")
@pytest.mark.parametrize(
    ("make", "transform", "score"),
    [pytest.param(clusters, "linear", "cells", marks=pytest.mark.slow), (skewed, "normal", "loglik")],
)
def test_the_transform_that_suits_the_table_wins(make: object, transform: str, score: str, tmp_path: Path) -> None:
    league, run = fit(make(3), tmp_path / "run", score=score)  # type: ignore[operator]
    taken = load_recipe(tmp_path / "run" / "recipe.yaml")
    assert taken.table.transform == transform and league["score"] == score
    (winner,) = (entry for entry in league["candidates"] if entry["chosen"])
    assert winner["transform"] == transform and winner["model"] == taken.model.name
    assert {**winner["settings"], "dependence": "none"} == dict(taken.model.settings)  # that is of the refits
    key, sign = ("cells", 1) if score == "cells" else ("loglik", -1)
    values = [sign * entry[key] for entry in league["candidates"]]
    assert values == sorted(values)
    schema = json.loads((tmp_path / "run" / "schema.json").read_text())
    assert all(bool(column["scale"]["knots"]) == (transform == "normal") for column in schema["columns"])
    assert len(run.impute(m=2)) == 2


@pytest.mark.slow
def test_a_recipe_of_a_contest_repeats_the_fit_without_one(tmp_path: Path) -> None:
    frame = clusters(0).head(60)
    frame.to_csv(tmp_path / "t.csv", index=False)
    vgi_cli.fit(tmp_path / "t.csv", out=tmp_path / "one", threads=1, set=QUICK)
    vgi_cli.fit(recipe=tmp_path / "one" / "recipe.yaml", out=tmp_path / "two")
    vgi_cli.fit(tmp_path / "t.csv", out=tmp_path / "three", threads=1, set=QUICK)
    files = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("one", "two", "three")]
    assert files[0] == files[1] == files[2]
    assert (tmp_path / "one/contest.json").read_bytes() == (tmp_path / "three/contest.json").read_bytes()
    assert not (tmp_path / "two/contest.json").exists()


def test_what_was_said_is_not_open(tmp_path: Path) -> None:
    league, _ = fit(clusters(1).head(80), tmp_path / "run", {"table.transform": "normal"})
    assert {entry["transform"] for entry in league["candidates"]} == {"normal"}
    assert {entry["model"] for entry in league["candidates"]} == {"mixture", "fa"}


@pytest.mark.parametrize(
    "options",
    first(2, [{"model": "fa"}, {"method": "mcem", "epochs": 2}, {"model": "mixture"}]),
    ids=["fa", "another method", "mixture"],
)
def test_no_contest_where_somebody_has_chosen(options: dict, tmp_path: Path) -> None:
    league, _ = fit(clusters(1), tmp_path / "run", **options)
    assert league == {}


def test_no_contest_among_a_handful_of_rows_nor_without_holes(tmp_path: Path) -> None:
    assert fit(clusters(1).head(choosing.FEWEST_COMPARED - 2), tmp_path / "few")[0] == {}
    assert fit(normal(100, 0), tmp_path / "whole")[0] == {}


@pytest.mark.usefixtures("two_models")
def test_rows_that_are_held_out_have_no_part_in_it(tmp_path: Path) -> None:
    """Their values may be what they will."""
    frame = clusters(2).head(80)
    one_transform = {"table.transform": "linear"}
    first, _ = fit(frame, tmp_path / "one", one_transform, val=0.2)
    apart = held_out(load_recipe(tmp_path / "one" / "recipe.yaml"), len(frame))
    assert apart is not None and first["rows"] == int((~frame.iloc[apart[0].numpy()].isna().all(axis=1)).sum())
    changed = frame.copy()
    changed.iloc[apart[1].numpy()] *= 1.5
    second, _ = fit(changed, tmp_path / "two", one_transform, val=0.2)
    assert second == first


def test_a_time_limit_leaves_the_first_candidate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticking(monkeypatch, 0.1)
    league, run = fit(clusters(0), tmp_path / "run", time_limit="20s")
    assert "comparing models on hidden cells" in run.manifest["time_limit"]["ended_early"]
    assert len(league.get("candidates", [])) < 6


@pytest.mark.full_fits("fitting.contest.scoring.HIDDEN_PARTS")
@pytest.mark.parametrize("score", first(1, ["cells", "loglik"]))
def test_more_components_are_compared_where_the_likelihood_hardly_differs(
    score: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held-out rows are described best by one component, a little worse by three, and much worse by five."""

    def sizes(family: object, config: Any, rows: ComparedRows, *args: Any, **how: Any) -> Sizing:
        if not isinstance(config, MixtureConfig) or config.components is not None:
            return choose_size(family, config, rows, *args, **how)  # type: ignore[arg-type]
        D = rows.table.D
        scores = {1: 0.0, 3: -0.9 * contest.NEARLY * D, 5: -1.1 * contest.NEARLY * D}
        set_ = {"covariance": "full", "factors": None, "outliers": True}
        tried = [Sized(config.model_copy(update={"components": K, **set_}), score) for K, score in scores.items()]
        return Sizing(tried[0].config, "one", tuple(tried))

    monkeypatch.setattr(contest, "choose_size", sizes)
    league, _ = fit(holes(normal(90, 4), 0.1, 4), tmp_path / "run", {"table.transform": "linear"}, score=score)
    mixtures = [one["settings"] for one in league["candidates"] if one["model"] == "mixture"]
    plain = [one for one in mixtures if one["covariance"] == "full" and one["shrink_to"] == "none"]
    counts = [one["components"] for one in plain]
    assert sorted(counts) == ([1, 3] if score == "cells" else [1])


@pytest.mark.usefixtures("two_models")
def test_what_is_said_and_reported(tmp_path: Path) -> None:
    said: list[str] = []
    frame = clusters(0).head(80)
    league, run = fit(frame, tmp_path / "run", {"table.transform": "linear"}, say=said.append)
    place = next(i for i, line in enumerate(said) if "models were compared on" in line)
    header, *shown = said[place + 1 : place + 2 + min(LINES, len(league["candidates"]))]
    assert header.split()[:5] == ["model", "hidden", "cells", "held-out", "rows"]
    assert [line[2:].split("  ")[0].strip() for line in shown] == [
        entry["title"] for entry in league["candidates"][:LINES]
    ]
    assert sum(line.startswith("→") for line in shown) == 1
    report = run.evaluate(frame)
    assert report["contest"] == league
    assert "contest.json" in run.manifest["files"]


def test_columns_of_levels_without_holes_are_not_scored(tmp_path: Path) -> None:
    """Beside numbers with holes: no cell of theirs was hidden."""
    frame = holes(normal(60, 0, 0.5), 0.2, 1).assign(kind=["u", "v"] * 30, sort=["a", "b", "c"] * 20)
    league, run = fit(frame, tmp_path / "run", {"table.transform": "linear"})
    assert len(league["candidates"]) > 1 and all(one["log_score"] is None for one in league["candidates"])
    assert not run.impute(m=1)[0].isna().any().any()


@pytest.mark.full_fits("methods.em.sizing.EPOCHS", "methods.em.sizing.FOLDS", "methods.start.ITERATIONS")
def test_nothing_is_said_of_numbers_where_there_are_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(4, size=200)
    frame = pd.DataFrame({name: np.array(list("abcd"))[(group + i) % 4] for i, name in enumerate("xyz")})
    frame = frame.mask(rng.random(frame.shape) < 0.2, "e")
    said: list[str] = []
    league, _ = fit(frame.mask(rng.random(frame.shape) < 0.2), tmp_path / "run", say=said.append)
    titles = [one["title"] for one in league["candidates"]]
    assert len(titles) > 1 and all(title.startswith("mixture of categories: ") for title in titles)
    [legend] = [line for line in said if line.startswith("hidden cells: ")]
    assert "log-likelihood, nats a row" in legend and "in range" not in legend
    assert not any("in range" in line for line in said)


def league_of(*entries: tuple[int, str, float]) -> League:
    """Mixtures of so many clusters, their transforms and weights; nothing else of a candidate is looked at."""
    recipes = [recipe("mixture", transform, components=K) for K, transform, _ in entries]
    candidates = [Candidate(f"{i}", of, None) for i, of in enumerate(recipes)]  # type: ignore[arg-type]
    nothing = torch.zeros(2)
    scores = Scores(nothing, nothing, None, None, nothing, None, None, 1, nothing)  # type: ignore[arg-type]
    return League(tuple((one, scores) for one in candidates), 0, "cells", tuple(w for *_, w in entries))


def members_of(*members: tuple[int, str]) -> list[Averaged]:
    """The models that imputations are drawn from."""
    return [
        Averaged(model=recipe("mixture", components=K).model, transform=transform, weight=0.5)  # type: ignore[arg-type]
        for K, transform in members
    ]


@pytest.mark.parametrize(
    ("league", "members", "words"),
    [
        (
            [(2, "linear", 0.7), (5, "linear", 0.3), (8, "linear", 0.0)],
            [(2, "linear"), (5, "linear")],
            "of 2 models, each as often as its weight says: together these fill hidden cells best",
        ),
        (
            [(2, "linear", 1.0), (5, "linear", 0.0)],
            [(2, "linear"), (3, "linear"), (5, "linear")],
            "of the model of weight 100%, with 2, 3 and 5 clusters, each as often as the others",
        ),
        (
            [(2, "linear", 0.7), (2, "normal", 0.3)],
            [(2, "linear"), (3, "linear"), (2, "normal"), (3, "normal")],
            "of the models above, each as often as its weight says, mixtures with several numbers of clusters (2 and 3 "
            "clusters): together these fill hidden cells best",
        ),
    ],
)
def test_what_is_said_of_an_average_is_what_the_table_shows(
    league: list[tuple[int, str, float]], members: list[tuple[int, str]], words: str
) -> None:
    said = average_words(league_of(*league), members_of(*members))
    assert said == f"imputations are drawn in turn from refits {words}"


def test_what_says_each_other_is_hidden_together() -> None:
    """The same in two units, as both are computed from each other; not a copy that differs by chance, nor a sum."""
    crp = np.random.default_rng(0).gamma(2, 2, 200).round(1) + 0.1
    other = np.random.default_rng(1).normal(5, 1, 200).round(1)
    frame = pd.DataFrame({"mg": crp, "other": other, "nmol": (9.524 * crp).round(), "sum": crp + other})
    schema = schema_alone(from_frame(frame.assign(near=crp + 0.1 * np.random.default_rng(2).integers(1, 4, 200))))
    parts = torch.randint(scoring.PARTS, (200, 5), generator=torch.Generator().manual_seed(0))
    together = contest._with_twins(parts, schema)
    assert torch.equal(together[:, [0, 1, 3, 4]], parts[:, [0, 1, 3, 4]])
    assert torch.equal(together[:, 2], parts[:, 0]) and not torch.equal(parts[:, 2], parts[:, 0])


def test_columns_without_holes_are_not_scored_beside_those_with_holes() -> None:
    frame = normal(200, 3)
    frame.loc[::4, "b"] = np.nan
    some, all_of_them = scored(frame, recipe("fa", factors=1)), scored(normal(200, 3), recipe("fa", factors=1))
    assert some.losses.isnan().all(0).tolist() == [True, False, True]
    assert not all_of_them.losses.isnan().all(0).any()
    known = some.losses[:, 1].nanmean()
    alone = scoring.columns_of(rows(frame, recipe("fa")))[1].alone
    assert float(some.cells.mean()) == pytest.approx(float(known) / alone)
    assert [column.holed for column in scoring.columns_of(rows(frame, recipe("fa")))] == [False, True, False]


def standings_of(*entries: tuple[Recipe, torch.Tensor], used: int = 400, **settings: Any) -> Standings:
    """Candidates that have these losses [R, columns], each one parameter more than the one before."""
    some = rows(normal(20, 0), recipe("fa"))
    scored = [
        (
            Candidate(str(i), of, some),
            Scores(
                *(losses.nanmean(1), losses.nanmean(1), None, None, losses, None),
                None,  # type: ignore[arg-type]
                i,
                torch.zeros(losses.shape[1]),
            ),
        )
        for i, (of, losses) in enumerate(entries)
    ]
    return Standings(Recipe().with_table(transform="linear").replace(**settings), some.table.layout, used, scored)


FULL = recipe("mixture", components=1, covariance="full")


def test_who_fills_one_column_clearly_worse_does_not_win() -> None:
    best = torch.rand(300, 3, generator=torch.Generator().manual_seed(0)).double()
    noise = 0.3 * torch.randn(300, 3, generator=torch.Generator().manual_seed(1)).double()
    for column, better, worse in ((0.12, 0.12, True), (0.01, 0.01, False), (0.0, 0.0, False)):
        other = best + noise
        other[:, 1] += column
        other[:, 2] -= better  # as good on the whole
        other = other - (other - best).mean() + 0.001
        made = standings_of((recipe("mixture", components=2, covariance="full"), other), (FULL, best))
        (first, ours), (_, theirs) = made.entries
        assert lags(ours, theirs) == worse and not lags(theirs, theirs)
        assert bool(made._against((first, ours), theirs)) == worse
        assert made.league(range(2)).entries[made.league(range(2)).winner][0].title == ("1" if worse else "0")
        by_density = standings_of((FULL, other), (FULL, best), score="loglik")
        assert not by_density._against(by_density.entries[0], by_density.entries[1][1])


def test_who_draws_too_many_values_beyond_all_that_was_observed_does_not_win() -> None:
    """Where the same model of bent columns does not, and fills cells about as well."""
    losses = torch.rand(300, 3, generator=torch.Generator().manual_seed(0)).double()
    bent = recipe("mixture", "normal", components=1, covariance="full")
    for ours, theirs, sound in (
        ((0.0, 0.01, 0.0), (0.0, 0.0, 0.0), False),
        ((0.0, 0.01, 0.0), (0.0, 0.006, 0.0), True),
        ((0.0, 0.003, 0.0), (0.0, 0.0, 0.0), True),
    ):
        made = standings_of((FULL, losses), (bent, losses + 1e-4))
        (first, one), (second, other) = made.entries
        made.entries[:] = [
            (first, one._replace(beyond=torch.tensor(ours), loglik=-0.001 + 0 * one.loglik)),
            (second, other._replace(beyond=torch.tensor(theirs), loglik=0 * one.loglik)),
        ]
        assert (made._against(*made.entries[:1], one) == "") is sound
        assert made.league(range(2)).entries[made.league(range(2)).winner][0].title == ("0" if sound else "1")
        for worse in ({"cells": 2 * other.cells}, {"loglik": -0.002 + 0 * one.loglik}):
            entries = [made.entries[0], (second, made.entries[1][1]._replace(**worse))]
            assert not replace(made, entries=entries)._against(entries[0], one)


def test_draws_of_incomes_that_are_standardised_lie_beyond_what_was_observed() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=2000)
    frame = pd.DataFrame({"x": x, "income": np.exp(3 + 0.5 * x + 0.5 * rng.normal(size=2000)).round(2)})
    by = {
        name: scored(frame, recipe("mixture", name, components=1, covariance="full")).beyond.tolist()
        for name in ("linear", "normal")
    }
    assert by["linear"][1] > 0.005 > 0.001 > by["normal"][1]
    assert max(by["linear"][0], by["normal"][0]) < 0.004


@pytest.mark.parametrize("factored", [recipe("fa"), recipe("mixture", components=1, covariance="factor", factors=1)])
def test_factors_do_not_win_where_rows_determine_full_covariances(factored: Recipe) -> None:
    best = torch.rand(300, 3, generator=torch.Generator().manual_seed(0)).double()
    noise = 0.3 * torch.randn(300, 3, generator=torch.Generator().manual_seed(1)).double()
    for gain, used, coarse in ((0.0, 400, True), (0.0, 50, False), (0.2, 400, False)):
        made = standings_of((factored, best + noise - noise.mean() - gain), (FULL, best), used=used)
        assert [made._is_coarse(*entry, made.entries[1][1]) for entry in made.entries] == [coarse, False]
        assert made.league(range(2)).entries[made.league(range(2)).winner][0].title == ("1" if coarse else "0")
    made = standings_of((factored, best), (recipe("mixture", components=1), best))  # none is full
    assert not made._is_coarse(*made.entries[0], made.entries[1][1])


PAIRS = recipe("mixture", components=1, covariance="full", shrink_to="pairs", shrinkage=9.0)


@pytest.mark.parametrize(
    "factored", [recipe("fa"), recipe("mixture", components=1, covariance="full", shrink_to="factors", shrinkage=9.0)]
)
def test_factors_do_not_win_where_covariances_that_keep_pairs_fill_about_as_well(factored: Recipe) -> None:
    best = torch.rand(300, 3, generator=torch.Generator().manual_seed(0)).double()
    noise = 0.3 * torch.randn(300, 3, generator=torch.Generator().manual_seed(1)).double()
    noise = noise - noise.mean()
    for gain, coarse in ((0.01, True), (0.2, False)):
        made = standings_of((factored, best - gain), (PAIRS, best + noise), used=40)
        assert [made._is_coarse(*entry, made.entries[0][1]) for entry in made.entries] == [coarse, False]
        assert made.league(range(2)).entries[made.league(range(2)).winner][0].title == ("1" if coarse else "0")
    worse = best + noise
    worse[:, 1] += 0.2  # of one column it says little: it may not win, and so says nothing of the others
    worse[:, 2] -= 0.19
    made = standings_of((factored, best), (PAIRS, worse), used=40)
    assert lags(made.entries[1][1], made.entries[0][1])
    assert not made._is_coarse(*made.entries[0], made.entries[0][1])
    assert [bool(made._against(entry, made.entries[0][1])) for entry in made.entries] == [False, True]
    assert made.league(range(2)).against == ("", "fills a column worse")


def test_models_of_numbers_that_hang_on_no_level_have_to_fill_cells_clearly_better() -> None:
    best = torch.rand(300, 3, generator=torch.Generator().manual_seed(0)).double()
    noise = 0.3 * torch.randn(300, 3, generator=torch.Generator().manual_seed(1)).double()
    noise = noise - noise.mean()
    shifted = recipe("mixture", components=1, covariance="full", dependence="linear")
    layout = rows(mixed_table(), FULL).table.layout
    assert layout.discrete and layout.continuous
    for plain in (FULL, PAIRS):
        for gain, loose in ((-0.1, True), (0.015, True), (0.03, False)):  # a standard error is 0.01
            made = replace(standings_of((plain, best - gain), (shifted, best + noise)), layout=layout)
            leader = made.entries[0 if gain > 0 else 1][1]
            assert [made._is_loose(*entry, leader) for entry in made.entries] == [loose, False]
            assert made.league(range(2)).entries[made.league(range(2)).winner][0].title == ("1" if loose else "0")
    several = replace(
        standings_of((recipe("mixture", components=2, covariance="full"), best), (shifted, best)), layout=layout
    )
    assert not several._is_loose(*several.entries[0], several.entries[0][1])  # clusters differ in levels and numbers
    of_numbers = standings_of((FULL, best), (shifted, best))
    assert not of_numbers._is_loose(*of_numbers.entries[0], of_numbers.entries[0][1])
    worse = best + noise
    worse[:, 1] += 0.2  # of one column it says little: it may not win, and so says nothing of the others
    worse[:, 2] -= 0.19
    made = replace(standings_of((FULL, best), (shifted, worse)), layout=layout)
    assert not made._is_loose(*made.entries[0], made.entries[0][1])


def mixed_table(count: int = 50) -> pd.DataFrame:
    arms = np.array(["active", "placebo"])[np.random.default_rng(3).integers(0, 2, count)]
    return holes(normal(count, 0), 0.2, 1).assign(arm=arms)


def test_the_levels_shift_numbers_whose_covariances_are_shrunk_where_rows_are_few() -> None:
    for count, shrunk in ((50, "pairs"), (70, None)):  # fewer than 20 rows for each of three columns
        found = dict(candidates(recipe("mixture"), rows(mixed_table(count), recipe("mixture")), ["linear"]))
        settings = found["mixture shifted by the levels, columns standardised"].model.settings
        assert settings.get("shrink_to") == shrunk and settings["components"] == 1


def test_mixtures_of_factor_models_give_way_to_shrunk_ones_where_rows_are_many() -> None:
    shrunk, factors = "mixture shrunk to pairs, columns standardised", "mixture of factor models, columns standardised"
    for count, score, titled in (
        (50, "cells", {shrunk, factors}),  # fewer than 20 rows for each of three columns
        (70, "cells", {shrunk}),
        (50, "loglik", {shrunk, factors}),
        (70, "loglik", {factors}),
    ):
        given = recipe("mixture").replace(score=score)
        some = rows(holes(normal(count, 0), 0.2, 1), given)
        titles = {title for title, _ in candidates(given, some, ["linear"])}
        assert titles & {shrunk, factors} == titled and "mixture, columns standardised" in titles
    few = rows(holes(normal(50, 0), 0.2, 1), recipe("mixture"))
    posterior = recipe("mixture").replace(uncertainty="posterior")
    assert not any("shrunk" in title for title, _ in candidates(posterior, few, ["linear"]))


def wide_table(count: int, factors: int = 2, seed: int = 0) -> pd.DataFrame:
    """Two arms, and 41 numbers of a few factors, of which the first ten are 1 higher in one arm."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(0, 2, count)
    x = rng.normal(size=(count, factors)) @ rng.normal(size=(factors, 41)) + rng.normal(size=(count, 41))
    x[:, :10] += arm[:, None]
    frame = pd.DataFrame(x, columns=[f"p{j}" for j in range(41)])
    return holes(frame, 0.1, seed).assign(arm=np.array(["control", "case"])[arm])


def test_in_wide_tables_one_factor_model_comes_first() -> None:
    """More than 40 columns of numbers: beside levels, which shift all candidates, by either score, and without any."""
    frame = wide_table(40)
    of_levels, of_numbers = rows(frame, recipe("mixture")), rows(frame.drop(columns="arm"), recipe("mixture"))
    for some, given, words in (
        (of_levels, recipe("mixture"), " shifted by the levels"),
        (of_levels, recipe("mixture").replace(score="loglik"), ""),
        (of_levels, recipe("mixture", dependence="none"), ""),
        (of_numbers, recipe("mixture"), ""),
    ):
        found = candidates(given, some, ["normal", "linear"])
        assert [title for title, _ in found[:2]] == [
            f"factor analysis{words}, columns bent to normal",
            f"factor analysis{words}, columns standardised",
        ]
        assert found[counted(found) - 1][0] == f"mixture of factor models{words}, columns bent to normal"
    shifted = dict(candidates(recipe("mixture"), of_levels, ["linear"]))
    own = shifted["factor analysis shifted by the levels, columns standardised"].model.settings
    assert own == {"covariance": "factor", "components": 1, "dependence": "linear"}
    assert {one.model.settings["dependence"] for one in shifted.values()} == {"linear"}
    both = candidates(recipe("mixture").replace(score="loglik"), of_levels, ["linear"])
    assert {of.model.settings["dependence"] for title, of in both if title.startswith("factor")} == {"none", "linear"}
    posterior = recipe("mixture").replace(uncertainty="posterior")
    assert not any("factor" in title for title, _ in candidates(posterior, of_levels, ["linear"]))


@pytest.mark.parametrize("wide", first(1, [False, True]))
def test_mixtures_take_the_number_of_components_of_the_first_mixture_whose_number_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    given: list[int | None] = []

    def sizes(family: object, config: Any, rows: ComparedRows, *args: Any, **how: Any) -> Sizing:
        given.extend([config.components] if isinstance(config, MixtureConfig) else [])
        return choose_size(family, config, rows, *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(contest, "choose_size", sizes)
    monkeypatch.setattr(contest, "candidates", lambda *given: candidates(*given)[:4])
    league, _ = fit(wide_table(50).drop(columns="arm") if wide else clusters(1).head(80), tmp_path / "run")
    if not wide:
        assert given[0] is None and None not in given[1:2] and len(given) >= 2
        return
    assert [one["model"] for one in league["candidates"]].count("fa") == 2
    mixtures = [one["settings"] for one in league["candidates"] if one["model"] == "mixture"]
    assert given[0] is None and None not in given[1:2] and len(given) >= 2
    assert len(mixtures) >= 2 and len({one["components"] for one in mixtures[:2]}) == 1
    assert all(one["outliers"] and one["factors"] == 3 for one in mixtures[:2])


@pytest.mark.slow
@pytest.mark.full_fits("methods.em.sizing.EPOCHS", "methods.em.sizing.FOLDS")
def test_a_wide_table_of_few_factors_beside_levels_is_filled_by_them(tmp_path: Path) -> None:
    """Of six factors: mixtures of models of three each, which were all there was, fill hidden cells far worse."""
    league, run = fit(wide_table(100, 6), tmp_path / "run", {"table.transform": "linear"})
    best, *others = league["candidates"]
    assert best["title"].startswith("factor analysis shifted by the levels, columns standardised: 1 cluster with ")
    assert best["settings"]["factors"] in (6, 8)  # the arms may count as one while factors are compared
    assert best["chosen"] and all(one["cells"] > 1.05 * best["cells"] for one in others) and others
    filled = run.impute(m=2)[0]
    assert not filled.isna().any().any()


def test_who_describes_held_out_rows_clearly_worse_does_not_take_part() -> None:
    """Cells that are filled equally well; by so many nats a row, of three columns of numbers."""
    cells = torch.rand(300, 3, generator=torch.Generator().manual_seed(0)).double()
    noise = 0.2 * torch.randn(300, generator=torch.Generator().manual_seed(1)).double()
    noise = noise - noise.mean()
    bent = recipe("mixture", transform="normal", components=2, covariance="full")
    for nats, spread, unlike in ((0.3, 1.0, True), (0.1, 1.0, False), (0.3, 20.0, False)):  # too little; noise
        made = standings_of((bent, cells), (FULL, cells))
        (first, ours), (second, theirs) = made.entries
        theirs = theirs._replace(loglik=torch.zeros(300).double())
        made.entries[:] = [(first, ours._replace(loglik=-nats + spread * noise)), (second, theirs)]
        assert [bool(made._is_unlike(*entry, theirs)) for entry in made.entries] == [unlike, False]
        assert bool(made._against(made.entries[0], theirs)) == unlike
        for other in (recipe("mixture", components=2, covariance="full"), recipe("fa", transform="normal")):
            made.entries[0] = (first._replace(recipe=other), made.entries[0][1])  # of the same transform, another form
            assert not made._is_unlike(*made.entries[0], theirs)
    shifted = recipe("mixture", components=2, covariance="full", dependence="linear")
    for other, used, nats, unlike in (
        *((bent, 400, 0.1, False), (bent, 9000, 0.1, True), (bent, 9000, 0.02, False)),  # of many rows less is clear
        *(
            (shifted, 400, 0.9, False),
            (shifted, 400, 1.1, True),
            (shifted, 9000, 0.1, False),
            (shifted, 9000, 0.2, True),
        ),
    ):
        made = standings_of((other, cells), (FULL, cells), used=used)
        (first, ours), (second, theirs) = made.entries
        theirs = theirs._replace(loglik=torch.zeros(300).double())
        made.entries[:] = [(first, ours._replace(loglik=-nats + 0.2 * noise)), (second, theirs)]
        assert [bool(made._is_unlike(*entry, theirs)) for entry in made.entries] == [unlike, False]
    worse = standings_of((bent, cells), (FULL, cells + 0.2))  # and fills cells worse
    (first, ours), (second, theirs) = worse.entries
    worse.entries[:] = [(first, ours._replace(loglik=-torch.ones(300).double())), (second, theirs)]
    assert not worse._is_unlike(*worse.entries[0], worse.entries[0][1])
    uneven = cells + 0.001 * torch.randn(300, 3, generator=torch.Generator().manual_seed(2)).double()
    uneven[:, 1] += (
        0.2  # and fills one column worse, the others better: it may not win, and so says nothing of the first
    )
    uneven[:, 2] -= 0.19
    made = standings_of((bent, cells), (FULL, uneven))
    (first, ours), (second, theirs) = made.entries
    made.entries[:] = [(first, ours._replace(loglik=-torch.ones(300).double())), (second, theirs)]
    assert lags(theirs, ours) and not made._against(made.entries[0], ours)


def test_the_league_says_what_is_against_a_model() -> None:
    """A model with the best scores that is not taken has its reason beside it, in lines and in JSON."""
    league = league_of((2, "linear", 0.0), (3, "linear", 1.0))
    assert "against it" not in "\n".join([*league.lines(), *league.legend()])
    league = league._replace(winner=1, against=("levels shift no number", ""))
    header, first, second = league.lines()
    assert header.endswith("  against it") and first.endswith("  levels shift no number") and second.startswith("→ ")
    assert second.endswith("100%") and "against it: why it is neither taken" in league.legend()[0]
    told = json.loads(league.text())["candidates"]
    assert [one["against"] for one in told] == ["levels shift no number", None]


def test_the_legend_says_which_column_decides_where_that_was_chosen() -> None:
    league = league_of((2, "linear", 0.0), (3, "linear", 1.0))
    said = "as well as the best on held-out rows (--score loglik), and have"
    assert said not in league.legend()[1] and said in league._replace(by="loglik").legend()[1]


def test_a_row_far_from_all_others_decides_nothing_alone() -> None:
    """Counties of which one has a hundred times the votes of the others: of such a row a Gaussian says ten thousand
    nats less, and one cell of it tells between two models as much as all others do."""
    draw = torch.Generator().manual_seed(0)
    cells = torch.rand(60, 3, generator=draw).double()
    bent = recipe("mixture", transform="normal", components=2, covariance="full")
    for far, rest, cell, unlike in (
        (-10_000.0, -1.0, 30.0, True),  # all other rows say the same
        (-10_000.0, 0.0, 30.0, False),  # none does
        (-10_000.0, 1.0, 30.0, False),  # they say the opposite
        (-1.0, -1.0, 0.0, True),
        (-1.0, -1.0, 0.2, False),  # all rows with cells that are filled worse
    ):
        gap = torch.full((60,), rest, dtype=torch.float64) + 0.1 * torch.randn(60, generator=draw).double()
        gap[0] = far
        theirs = cells.clone()
        theirs[0 if cell > 1 else slice(None)] += cell
        made = standings_of((FULL, cells), (bent, theirs))
        (first, ours), (second, other) = made.entries
        other = other._replace(loglik=torch.zeros(60).double())
        made.entries[:] = [(first, ours._replace(loglik=gap)), (second, other)]
        assert bool(made._is_unlike(*made.entries[0], ours)) == unlike


def test_each_model_of_a_weight_is_shown() -> None:
    few = league_of(*((K, "linear", 0.5 if K in (1, 8) else 0.0) for K in range(1, 10)))
    lines = few.lines()
    assert len(lines) == 10 and lines[8].endswith("     50%") and lines[9] == "  1 more, in contest.json"


@pytest.mark.slow
@pytest.mark.full_fits("fitting.contest.scoring.HIDDEN_PARTS")
def test_columns_that_say_nothing_of_each_other_are_said_to(tmp_path: Path) -> None:
    line = "columns say little of each other, or too little for so few rows"
    for frame, correlation in ((normal(60, 0, 0.0), 0), (normal(60, 0), 0.9)):
        said: list[str] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VgiWarning)
            fit(holes(frame, 0.2, 1), tmp_path / f"run{correlation}", say=said.append)
        assert any(line in one for one in said) == (correlation == 0)


@pytest.mark.slow
def test_columns_in_their_own_units_are_compared_too(tmp_path: Path) -> None:
    league, _ = fit(clusters(1).head(60), tmp_path / "run", {"table.transform": "none"})
    assert {entry["transform"] for entry in league["candidates"]} == {"none"}
    assert all("columns in their own units" in entry["title"] for entry in league["candidates"])
