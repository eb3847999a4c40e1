"""The latent-class simulation: its truth against enumeration, and a small fit that comes near it."""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import pytest

from tests.scripts import module

latent_class = module("latent_class")


def test_the_truth_is_a_density_with_the_marginals_that_it_states() -> None:
    truth = latent_class.Truth.drawn(3)
    levels = np.array(list(itertools.product(*map(range, latent_class.LEVELS))), float)
    x = np.column_stack([np.tile([0.3, -0.2, 1.0], (len(levels), 1)), levels])
    none, some = np.zeros(x.shape, bool), np.zeros(x.shape, bool)
    some[:, 3:] = True
    whole = np.exp(truth.joint(x, none)).sum()
    assert whole == pytest.approx(np.exp(truth.joint(x[:1], some[:1])).sum())
    assert np.exp(truth.joint(x[:1], ~none[:1])).sum() == pytest.approx(1)


def test_a_small_fit_comes_near_the_truth() -> None:
    settings = {"model.components": 4, "bootstrap": "none"}
    args = argparse.Namespace(rows=1_500, test_rows=600, missing=0.5, model="mixture", epochs=None, seed=1)
    found = latent_class.compare(args, "em", settings)
    assert -0.02 < found["gap"] < 0.1
    p = [*found["levels"].values(), *found["ranks"].values()]
    assert min(p) > 1e-4
