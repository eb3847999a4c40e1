"""Columns of texts whose cells hold several answers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.reader import read_table

N = 200
SAMPLES = Path(__file__).parents[2] / "sample_data"
MEDIA = ["radio", "tv", "web", "print", "friends"]


def said(cells: Sequence[str | None], **options: object) -> list[str]:
    frame = pd.DataFrame({"media": cells, "y": np.random.default_rng(1).normal(size=len(cells))})
    text = frame.to_csv(index=False)
    notes = infer_schema(read_table(["-"], stdin=io.BytesIO(text.encode())), **options)[1]  # type: ignore[arg-type]
    return [note for note in notes if "several answers" in note]


def ticked(between: str, share: float = 0.4, shuffled: bool = False, words: Sequence[str] = MEDIA) -> list[str | None]:
    rng = np.random.default_rng(0)
    cells: list[str | None] = []
    for row in rng.random((N, len(words))) < share:
        own = [word for word, tick in zip(words, row, strict=True) if tick]
        if shuffled:
            rng.shuffle(own)
        cells.append(between.join(own) or None)
    return cells


@pytest.mark.parametrize("between", [";", "|", ", ", "; ", " | ", " ;"])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_column_of_several_answers_is_said_with_what_splits_it(between: str, shuffled: bool) -> None:
    cells = ticked(between, shuffled=shuffled)
    [line] = said(cells)
    row = next(i for i, cell in enumerate(cells) if cell is not None and between in cell)
    assert line == (
        f"column 'media' holds several answers in a cell ('{cells[row]}' in row {row + 1} (line {row + 2})): a column "
        "of yes and no for each of its 5 answers models them better (in pandas: `frame['media'].str.get_dummies(sep="
        f"'{between}')`, with the missing cells kept: see docs/columns.md)"
    )
    assert sorted(pd.Series(cells).str.get_dummies(sep=between)) == sorted(MEDIA)
    assert not said(cells, kinds={"media": "categorical"}) and not said(cells, exclude=["media"])


def test_many_combinations_three_answers_codes_and_a_mark_at_the_end() -> None:
    words = [f"genre {k}" for k in range(14)]
    assert "each of its 14 answers" in said(ticked("|", 0.3, words=words))[0]  # carried: too many levels
    assert "each of its 3 answers" in said(ticked(";", words=MEDIA[:3]))[0]
    assert "each of its 4 answers" in said(ticked(";", words=["1", "2", "3", "4"]))[0]
    assert "each of its 5 answers" in said([cell and f"{cell};" for cell in ticked(";")])[0]


def test_the_line_of_the_docs_keeps_the_holes() -> None:
    s = pd.Series(["radio;tv", None, "tv"])
    found = s.str.get_dummies(sep=";").where(s.notna())
    assert found["tv"].tolist()[::2] == [1, 1] and found.iloc[1].isna().all() and found["radio"][2] == 0
    page = (SAMPLES.parent / "docs" / "columns.md").read_text()
    assert '`frame.join(s.str.get_dummies(sep=";").where(s.notna()))`' in page


LAST, FIRST = ["Smith", "Jones", "Brown", "Lee"], ["John", "Anna", "Mary", "Paul", "Tom"]


@pytest.mark.parametrize(
    "cells",
    [
        [f"{LAST[i % 4]}, {FIRST[i % 5]}" for i in range(N)],
        [f"{LAST[i % 4]}, {FIRST[i % 5]}" if i % 3 else LAST[i % 4] for i in range(N)],
        [("Paris, Texas", "Paris", "Rome, Italy", "Austin, Texas", "Rome, Georgia")[i % 5] for i in range(N)],
        [("Yes, always", "Yes, sometimes", "No", "No, never")[i % 4] for i in range(N)],
        [("White", "Black", "Asian; Indian", "Asian; Chinese", "Other")[i % 5] for i in range(N)],
        [f"{i % 7};{i % 11};{i % 3}" for i in range(N)],  # three quantities, each at its place
        [("low", "mid", "high")[i % 3] for i in range(N)],
        [("a;b", "a", "b")[i % 3] for i in range(N)],  # two answers
        ["radio;tv;web" if i < 10 else MEDIA[i % 5] for i in range(N)],  # hardly ever several
        [f"s{i};t{i}" for i in range(N)],
        ["I like it, but, as I said, not much", "not much, I like it", "fine"] * 5,
    ],
)
def test_other_texts_are_not(cells: list[str]) -> None:
    assert not said(cells)


@pytest.mark.parametrize("name", ["penguins.csv", "mammals.csv", "weather.parquet"])
def test_no_sample_has_such_a_column(name: str) -> None:
    assert not any("several answers" in note for note in infer_schema(read_table([SAMPLES / name]))[1])
