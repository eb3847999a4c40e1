"""Levels that say which of two columns is greater: what is said of them, and what they say of rows."""

from __future__ import annotations

import numpy as np
import pytest

from vgi_cli.columns.comparisons import Comparison, signs_of

ON_TIME = Comparison("on_time", "delivered", "promised", (1.0, 1.0, 0.0), shift=-2.0)
RESULT = Comparison("result", "home", "away", (0.0, 1.0, 2.0))


def test_words() -> None:
    assert ON_TIME.words(["yes", "yes", "no"]) == "'on_time' is yes where 'delivered' ≤ 'promised', else no"
    assert RESULT.words(["A", "D", "H"]) == "'result' is H, D, A where 'home' >, =, < 'away'"
    same = Comparison("same", "new", "old", (0.0, 1.0, 0.0))
    assert same.words(["no", "yes", "no"]) == "'same' is yes where 'new' = 'old', else no"
    other = Comparison("other", "new", "old", (1.0, 0.0, 1.0))
    assert other.words(["yes", "no", "yes"]) == "'other' is yes where 'new' ≠ 'old', else no"
    open_ = Comparison("over", "spent", "budget", (0.0, None, 1.0))
    assert open_.words(["no", None, "yes"]) == "'over' is yes where 'spent' > 'budget', no where it is less"
    turned = Comparison("over", "budget", "spent", (1.0, None, 0.0))
    assert turned.words(["yes", None, "no"]) == "'over' is yes where 'budget' < 'spent', no where it is greater"
    assert Comparison("won", "own", "other", (None, 0.0, 1.0)).words([None, "no", "yes"]) == (
        "'won' is yes, no where 'own' >, = 'other'"
    )


def test_what_is_said() -> None:
    """By the sign of the difference, moments by their common origin; nothing where a cell is missing or no row says."""
    first, second = np.array([1.0, 2.0, 3.0, np.nan, 1.0]), np.array([4.0, 4.0, 4.0, 4.0, np.nan])
    np.testing.assert_array_equal(ON_TIME.signs(first, second), [0, 1, 2, -1, -1])
    np.testing.assert_array_equal(ON_TIME.said(first, second), [1, 1, 0, np.nan, np.nan])
    flag = np.array([1.0, 0.0, np.nan, 1.0, 1.0])
    np.testing.assert_array_equal(ON_TIME.excludes(flag, first, second), [False, True, False, False, False])
    open_ = Comparison("over", "spent", "budget", (0.0, None, 1.0))
    np.testing.assert_array_equal(open_.said(np.array([1.0]), np.array([1.0])), [np.nan])
    assert not open_.excludes(np.array([0.0, 1.0]), np.ones(2), np.ones(2)).any()
    np.testing.assert_array_equal(open_.knows(np.array([0.0, 1.0, 2.0])), [True, True, False])


def test_equal_numbers_are_equal_but_for_the_noise_of_arithmetic() -> None:
    first = np.array([0.1 + 0.2, 0.3, 0.3, 0.0, -5.0])
    second = np.array([0.3, 0.1 + 0.2, 0.300001, 0.0, -6.0])
    np.testing.assert_array_equal(signs_of(first, second), [1, 1, 0, 1, 2])


@pytest.mark.parametrize(
    ("names", "codes", "message"),
    [
        (("a", "b", "b"), (0.0, 1.0, 1.0), "three columns"),
        (("a", "a", "b"), (0.0, 1.0, 1.0), "three columns"),
        (("a", "b", "c"), (1.0, 1.0, 1.0), "several levels"),
        (("a", "b", "c"), (None, None, 1.0), "several levels"),
    ],
)
def test_what_is_no_comparison_is_refused(
    names: tuple[str, str, str], codes: tuple[float | None, float | None, float | None], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Comparison(*names, codes)
