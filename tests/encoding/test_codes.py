"""Cells that may be codes for cells without an answer say nothing of other columns, and stay as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from tests.table.helpers import save
from vgi_cli.columns.number import Number
from vgi_cli.encoding.codes import far_values, slipped_signs
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.table.columns import TableInFiles
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table
from vgi_cli.table.source import open_table

N = 400


def coded(values: npt.ArrayLike, code: float, which: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Values [N] with a code in some cells."""
    return np.where(which, code, np.asarray(values, np.float64))


def survey(seed: int = 0) -> tuple[pd.DataFrame, npt.NDArray[np.bool_]]:
    """Answers from 1 to 5 with codes 8 and 9, and in which rows one of them is a code."""
    rng = np.random.default_rng(seed)
    answers = rng.integers(1, 6, (N, 3)).astype(float)
    codes = rng.choice([0, 8, 9], (N, 3), p=[0.92, 0.03, 0.05])
    frame = pd.DataFrame(np.where(codes > 0, codes, answers), columns=["q1", "q2", "q3"])
    return frame.assign(age=rng.integers(18, 80, N).astype(float)), (codes > 0).any(1)


def test_a_score_that_is_missing_beside_codes_makes_no_rule() -> None:
    frame, without = survey()
    frame["score"] = (frame.q1 + frame.q2 - frame.q3 + np.random.default_rng(1).normal(0, 1, N)).round(2)
    schema, notes = infer_schema(from_frame(frame.assign(score=frame.score.mask(without))))
    assert schema.thresholds == () and schema.unasked == ()
    assert not [line for line in notes if "no cell" in line or "holds only" in line or "--exclude" in line]
    assert len([line for line in notes if "as codes for don't know" in line]) == 1
    column = schema.columns[0]
    assert isinstance(column, Number) and column.levels == (1, 2, 3, 4, 5, 8, 9)  # cells and fills are as they were


def test_a_table_in_files_has_the_same_rules(tmp_path: Path) -> None:
    frame, without = survey()
    path = save(tmp_path, "t.csv", frame.assign(y=frame.q1.mask(without)).to_csv(index=False))
    held, in_files = read_table([path]), TableInFiles(open_table([path]), tmp_path)
    assert infer_schema(in_files) == infer_schema(held)
    assert not held.missing("q1").any() and not in_files.missing("q1").any()  # nothing is missing from then on


def test_a_level_that_may_be_a_code_makes_no_rule() -> None:
    rng = np.random.default_rng(2)
    group = rng.choice(["1", "2", "99"], N, p=[0.4, 0.4, 0.2])
    frame = pd.DataFrame({"group": group, "y": rng.normal(size=N).round(3), "z": rng.normal(size=N).round(3)})
    for code, skips in (("99", 0), ("3", 1)):
        own = frame.assign(group=frame.group.replace("99", code), y=frame.y.mask(frame.group == "99"))
        schema, notes = infer_schema(from_frame(own), kinds={"group": "categorical"})
        assert len(schema.skips) == skips and len([line for line in notes if "no cell" in line]) == skips, code


def test_beside_codes_a_limit_is_found_as_without() -> None:
    rng = np.random.default_rng(3)
    age = rng.integers(5, 80, N)
    income = (1500 + 20 * age + rng.normal(0, 300, N)).round()
    frame = pd.DataFrame({"age": coded(age, 999, rng.random(N) < 0.1), "income": income})
    frame["income"] = frame.income.mask(frame.age < 18)
    (one,) = infer_schema(from_frame(frame))[0].thresholds
    assert (one.name, one.side, one.limit) == ("age", "below", 18.0)


def test_a_limit_that_codes_contradict_is_none() -> None:
    """Retired people have no wage; some whose age is unknown have one."""
    rng = np.random.default_rng(4)
    age = rng.integers(20, 90, N).astype(float)
    wage = pd.Series((1500 + 5 * age + rng.normal(0, 300, N)).round()).mask(age > 65)
    for code, found in ((float("nan"), 1), (999.0, 0)):
        frame = pd.DataFrame({"age": coded(age, code, rng.random(N) < 0.1), "wage": wage})
        assert len(infer_schema(from_frame(frame))[0].thresholds) == found


def test_an_order_is_as_without_codes() -> None:
    rng = np.random.default_rng(6)
    low, coded_rows = rng.integers(20, 80, N).astype(float), rng.random(N) < 0.1
    last = low + rng.integers(0, 12, N)
    orders = [
        infer_schema(from_frame(pd.DataFrame({"first": low, "last": coded(last, code, coded_rows)})))[0].orders
        for code in (float("nan"), 999)
    ]
    assert len(orders[0]) == 1 and orders[1] == orders[0]


def test_an_order_that_codes_contradict_is_none() -> None:
    rng = np.random.default_rng(6)
    low = rng.integers(20, 80, N)
    frame = pd.DataFrame({"first": coded(low, 999, rng.random(N) < 0.1), "last": low + rng.integers(0, 12, N)})
    assert infer_schema(from_frame(frame))[0].orders == ()


def test_what_codes_never_go_with_is_no_rule() -> None:
    rng = np.random.default_rng(7)
    n = 2_000
    answers = np.where(rng.random(n) < 0.2, 9.0, rng.integers(1, 6, n))
    frame = pd.DataFrame({"q1": answers, "q2": rng.permutation(answers), "sex": rng.choice(["female", "male"], n)})
    for code, found in ((9, 0), (5, 1)):
        own = frame.assign(q1=frame.q1.mask((frame.q1 == code) & (frame.sex == "male"), 3.0))
        assert len(infer_schema(from_frame(own))[0].structural_zeros) == found, code


def test_codes_are_not_said_to_pile_up() -> None:
    """A line of its own names them."""
    rng = np.random.default_rng(9)
    age, known = rng.integers(18, 80, N), rng.random(N) < 0.7
    for code, piles in ((85.0, 1), (999.0, 0)):
        notes = infer_schema(from_frame(pd.DataFrame({"age": coded(age, code, ~known), "y": rng.normal(size=N)})))[1]
        assert len([line for line in notes if "pile up" in line]) == piles, code
        assert len([line for line in notes if "far from all other values" in line]) == 1 - piles, code


def piled(seed: int, cells: int, decimals: int = 1) -> npt.NDArray[np.float64]:
    """Temperatures of about 11 to 31 degrees, and 85 in so many cells."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(21, 3, 800), decimals)
    values[:cells] = 85.0
    return values


def test_a_pile_far_beyond_all_others_is_named_whatever_its_number_of_cells() -> None:
    for seed in range(5):
        for cells in (5, 6, 7, 8, 12, 20, 40, 75):
            assert [tuple(one) for one in far_values(piled(seed, cells), piles=True)] == [(85.0, cells)]
        assert [one.value for one in far_values(np.append(piled(seed, 8), [-127.0] * 7), piles=True)] == [-127.0, 85.0]
    schema, notes = infer_schema(from_frame(pd.DataFrame({"t": piled(0, 8), "y": np.arange(800) % 7})))
    assert any("85 (8 cells) is far from all other values of column 't'" in one for one in notes)
    assert schema.columns[0].name == "t"


def test_what_may_be_usual_far_from_others_is_no_pile() -> None:
    rng = np.random.default_rng(0)
    assert far_values(np.append(piled(0, 0), [31.5] * 40), piles=True) == []
    assert far_values(np.append(piled(0, 0), [80.0] * 200), piles=True) == []  # one cell of five
    for _ in range(100):
        amounts, of_people = np.exp(rng.normal(3, 1, 400)).round(1), np.repeat(rng.standard_t(4, 40).round(1), 10)
        for values in (amounts, of_people, np.append(amounts, [amounts.max() * 2.5] * 10)):
            assert far_values(values, piles=True) == far_values(values)


@pytest.mark.parametrize("slips", [1, 2, 5])
def test_signs_that_slipped(slips: int) -> None:
    """Of weights, not of a balance that may be negative, nor of temperatures."""
    rng = np.random.default_rng(slips)
    weights = np.exp(rng.normal(4.3, 0.2, 400)).round(1)
    weights[:slips] *= -1
    assert slipped_signs(weights).tolist() == np.sort(weights[:slips]).tolist()
    lines = infer_schema(from_frame(pd.DataFrame({"weight": weights, "other": rng.normal(size=400)})))[1]
    assert any(f"{weights[0]:g}" in line and "far from all other" in line for line in lines)
    assert not len(slipped_signs(np.append(weights, 0.0)))
    assert not len(slipped_signs(np.append(weights, -1.0))) and not len(slipped_signs(np.append(weights, -500.0)))
    for seed in range(200):
        other = np.random.default_rng(seed)
        signed = other.normal(50, 20, int(other.choice([30, 100, 400, 2_000]))).round(1)
        assert not len(slipped_signs(signed)), seed


def test_a_second_group_of_values_is_no_codes() -> None:
    """Doses per kg of three drugs: two of them have a tenth of those of the third."""
    doses = np.repeat([0.05, 0.1, 0.15, 1.0, 1.5, 2.0], [44, 95, 50, 28, 29, 25])
    assert far_values(doses, piles=True) == []
    assert [one.value for one in far_values(np.append(doses[:189], [7.0] * 5), piles=True)] == [7.0]
    drug = np.repeat(["b", "a", "b", "a", "c"], [44, 59, 36, 50, 82])
    schema = schema_alone(from_frame(pd.DataFrame({"drug": drug, "dose": doses})))
    (zeros,) = schema.structural_zeros
    assert len(zeros.pairs) == 11  # of the 18 pairs those that are in no row
