"""Levels whose group is observed are as likely as the model, or else how often they occur, says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.encoder import decode, encode
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.known_groups import ELSEWHERE, group_probability
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.maths.noise import KeyedNoise, row_keys
from vgi_cli.table.frames import from_frame

COPIES = {"e3/e3": 0, "e2/e3": 0, "e3/e4": 1, "e2/e4": 1, "e1/e4": 1, "e4/e4": 2}
SHARES = [0.5, 0.1, 0.28, 0.04, 0.02, 0.06]


def genotypes(n: int = 500, *, words: bool = False) -> pd.DataFrame:
    """A genotype and how many copies it has of an allele, beside numbers that have to do with none."""
    rng = np.random.default_rng(2)
    own = rng.choice(list(COPIES), n, p=SHARES)
    frame = pd.DataFrame({"genotype": own, "copies": [COPIES[one] for one in own]})
    if words:
        frame["copies"] = frame.copies.map({0: "none", 1: "one", 2: "two"})
    for i in range(4):
        frame[f"x{i}"] = rng.normal(size=n).round(3)
    return frame


def fitted(frame: pd.DataFrame) -> tuple[Schema, Floats]:
    schema = schema_alone(from_frame(frame))
    (relation,) = schema.relations
    assert (relation.names, relation.how) == (("copies", "genotype"), "groups")
    return schema, np.stack([codes_of(from_frame(frame), one) for one in schema.encoded], 1)


@pytest.mark.parametrize("words", [False, True])
def test_a_level_of_another_group_is_replaced_as_often_as_levels_occur(words: bool) -> None:
    frame = genotypes(words=words)
    schema, true = fitted(frame)
    (relation,) = schema.relations
    counts = frame.genotype.value_counts()
    assert relation.often == tuple(counts[sorted(counts.index)])
    assert Schema.from_json(schema.to_json()).relations == schema.relations

    missing = np.zeros(true.shape, bool)
    missing[:, 0] = True
    draws = np.repeat(true[None], 40, 0)
    wrong = sorted(COPIES).index("e4/e4")
    draws[..., 0] = wrong  # right where there are two copies
    noise = KeyedNoise(1, schema.modelled, row_keys([str(i) for i in range(len(true))]), torch.arange(40))

    def filled(schema: Schema, *, keyed: bool = True) -> Floats:
        own = draws.copy()
        ties = (lambda name, other: noise.at(other).uniform([name])[..., 0].numpy()) if keyed else None
        assert keep_relations(own, true, missing, schema, ties=ties).count() == 0
        return own[..., 0]

    fills = filled(schema)
    assert (fills[:, frame.copies.astype(str).isin(["2", "two"])] == wrong).all()
    one = frame.copies.astype(str).isin(["1", "one"]).to_numpy()
    shares = np.bincount(fills[:, one].astype(int).ravel(), minlength=6) / fills[:, one].size
    expected = np.array([counts[name] * (COPIES[name] == 1) for name in sorted(COPIES)], float)
    assert np.abs(shares - expected / expected.sum()).max() < 0.01
    # A run of before knows no frequencies: all levels of the group are as likely
    old = replace(schema, relations=(replace(relation, often=()),))
    shares = np.bincount(filled(old)[:, one].astype(int).ravel(), minlength=6)[expected > 0] / fills[:, one].size
    assert np.abs(shares - 1 / 3).max() < 0.02
    alone = filled(schema, keyed=False)
    assert (alone == alone[:1]).all()


@pytest.mark.parametrize("words", [False, True])
def test_draws_of_another_group_than_the_observed_one_are_unlikely(words: bool) -> None:
    frame = genotypes(words=words)
    schema, _ = fitted(frame)
    whole = encode(from_frame(frame), schema, seed=0).table.x
    x = whole.numpy()[None].repeat(2, 0)
    at = dict(zip(schema.modelled, schema.layout.slices, strict=True))
    missing = np.zeros(x.shape[1:], bool)
    rolled = np.roll(x[1, :, at["genotype"]], 1, axis=0)
    x[1, :, at["genotype"]] = rolled
    missing[:400, at["genotype"]] = True
    missing[300:400, at["copies"]] = True
    found = group_probability(x.astype(np.float32).astype(np.float64), missing, schema)
    assert (found[0] == 1).all() and (found[1, 300:] == 1).all()
    levels = decode(whole, schema)[:, 0]
    copies = np.array([COPIES[name] for name in sorted(COPIES)])[levels.astype(int)]
    assert np.array_equal(found[1, :300], np.where(np.roll(copies, 1)[:300] == copies[:300], 1.0, ELSEWHERE))
    if not words:  # a number that no level of the fit has says nothing
        x[:, :, at["copies"]] = 50.0
        assert (group_probability(x, missing, schema) == 1).all()


@pytest.mark.slow
def test_fills_of_a_run_are_as_frequent_as_the_genotypes_with_so_many_copies(tmp_path: Path) -> None:
    frame = genotypes(400)
    rng = np.random.default_rng(5)
    hidden = rng.random(len(frame)) < 0.25
    holed = frame.assign(genotype=frame.genotype.mask(hidden))
    run = vgi_cli.fit(
        holed, out=tmp_path / "run", model="mixture", set={"model.components": 1, "bootstrap": "none", "trees": "none"}
    )
    tables = run.impute(m=10)
    one = hidden & (frame.copies == 1)
    fills = pd.concat([table.genotype[one] for table in tables])
    assert fills.map(COPIES).eq(1).all()
    seen = holed.genotype[frame.copies == 1].value_counts(normalize=True)
    assert (fills.value_counts(normalize=True).reindex(seen.index).fillna(0) - seen).abs().max() < 0.06
    for many, few in zip(tables, run.impute(m=3), strict=False):  # a draw does not depend on the others
        assert few.equals(many)
