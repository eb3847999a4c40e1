"""Which of many values are taken."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vgi_cli.columns.places import by_chance, evenly


@given(count=st.integers(0, 300), most=st.integers(2, 40))
def test_places_are_evenly_spread_and_reach_both_ends(count, most):
    places = evenly(count, most)
    assert len(places) == min(count, most)
    if count:
        assert (places[0], places[-1]) == (0, count - 1)
        steps = np.diff(places)
        assert not len(steps) or (steps.min() >= 1 and steps.max() - steps.min() <= 1)


def test_each_place_is_said_by_as_many_chances_and_the_end_belongs_to_the_last():
    places = by_chance(np.append((np.arange(300) + 0.5) / 300, 1.0), 3)
    assert np.bincount(places).tolist() == [100, 100, 101]
