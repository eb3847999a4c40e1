"""Codes for cells without an answer beside the answers of a scale, and beside amounts that are all far larger."""

from __future__ import annotations

import numpy as np
import pytest

from tests.table.helpers import from_text
from vgi_cli.columns.wording import Alarm
from vgi_cli.encoding.infer import infer_schema


def lines(**columns: list[object]) -> list[str]:
    """What is said of a table that may mean missing."""
    rows = zip(*columns.values(), strict=True)
    text = "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows), ""])
    return [line for line in infer_schema(from_text(text))[1] if "missing" in line]


def scale(points: int, codes: dict[int, int], seed: int, n: int = 300) -> list[object]:
    """Answers from 1 to `points` and so many cells of each code."""
    rng = np.random.default_rng(seed)
    coded = [code for code, count in codes.items() for _ in range(count)]
    answers = [*coded, *(1 + np.arange(n - len(coded)) % points)]
    return rng.permutation(answers).tolist()


def test_codes_of_several_scales_have_one_line() -> None:
    names = "abcd"
    [line] = lines(**{name: scale(5, {8: 12, 9: 20}, seed) for seed, name in enumerate(names)})
    flags = "--na-values a,b,c,d=8 --na-values a,b,c,d=9"
    assert line == (
        "8 (48 cells), 9 (80 cells) lie apart from the other values, 1 to 5, of columns 'a', 'b', 'c', 'd', as codes "
        f"for don't know and refused do: `{flags}` if they mean missing"
    )
    assert isinstance(line, Alarm)
    [rare] = lines(**{name: scale(5, {8: 3, 9: 3}, seed, 900) for seed, name in enumerate(names)})
    assert rare.startswith("8 (12 cells), 9 (12 cells) lie apart") and not isinstance(rare, Alarm)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"a": (5, {8: 12, 9: 20})}, ["8 (12 cells), 9 (20 cells) lie apart"]),  # the gap is wide
        ({"a": (4, {7: 12, 8: 12, 9: 20})}, ["7 (12 cells), 8 (12 cells), 9 (20 cells) lie apart"]),
        ({"a": (7, {9: 20})}, []),
        ({"a": (7, {9: 20}), "b": (7, {9: 11})}, ["9 (31 cells) lies apart from the other values, 1 to 7"]),
        ({"a": (6, {8: 20}), "b": (6, {8: 11})}, []),  # 8 alone may be a count
        (
            {"a": (5, {8: 12, 9: 20}), "b": (6, {8: 11})},
            ["8 (12 cells), 9 (20 cells) lie apart", "8 (11 cells) lies apart from the other values, 1 to 6"],
        ),
        ({"a": (9, {}), "b": (9, {})}, []),  # a scale up to 9
        ({"a": (2, {8: 12, 9: 20})}, ["'8' (12 cells), '9' (20 cells) are levels of column 'a'"]),
        ({"a": (6, {8: 12, 9: 20})}, []),  # a gap of one number may be chance
    ],
)
def test_which_values_may_be_codes(columns: dict[str, tuple[int, dict[int, int]]], said: list[str]) -> None:
    found = lines(**{name: scale(*one, seed) for seed, (name, one) in enumerate(columns.items())})
    assert len(found) == len(said), found
    assert all(line.startswith(start) for line, start in zip(found, said, strict=True)), found


def test_counts_that_end_thinly_are_no_codes() -> None:
    rng = np.random.default_rng(3)
    columns = {name: np.minimum(rng.poisson(1.6, 400), 9).tolist() for name in "abcdefgh"}
    columns["a"][:3], columns["b"][:4] = [9] * 3, [9] * 4
    assert not any("apart" in line for line in lines(**columns))


def test_small_codes_beside_round_amounts() -> None:
    rng = np.random.default_rng(1)
    amounts = (50 * np.rint(np.exp(rng.normal(3.4, 0.6, 300))).clip(9, 300)).astype(int)
    coded = amounts.copy()
    coded[:30:2], coded[1:10:2] = 99, 98
    other = rng.normal(0, 1, 300).round(3).tolist()
    assert lines(income=coded.tolist(), other=other) == [
        f"{code} ({count} cells) is far below all other values, multiples of 50, of column 'income': `--na-values "
        f"income={code}` if it means missing"
        for code, count in ((98, 5), (99, 15))
    ]
    assert lines(income=amounts.tolist(), other=other) == []
    uneven = np.where(np.arange(300) == 299, 1234, coded)  # then 99 may be an amount
    assert lines(income=uneven.tolist(), other=other) == []
    near = np.where(coded < 100, coded + 1, coded)  # 99 and 100: one is a multiple
    assert lines(income=near.tolist(), other=other) == []
    prices = np.where(coded < 100, 99, coded - 350)  # from 100 on, 99 is no small one
    assert lines(income=prices.tolist(), other=other) == []
