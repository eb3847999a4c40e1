"""Detection limits that are said to mean missing."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from vgi_cli.columns.wording import Alarm
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.reader import read_table

N = 40
Y = np.random.default_rng(0).normal(5, 1, N).round(2)


def said(columns: dict[str, Sequence[object]], *tokens: str, decimal: str = ".") -> list[str]:
    text = pd.DataFrame({"y": Y, **columns}).to_csv(index=False, sep=";")
    table = read_table(["-"], stdin=io.BytesIO(text.encode()), na_values=tokens, delimiter=";", decimal=decimal)
    return [note for note in infer_schema(table)[1] if "missing by" in note]


def below(limit: str, count: int) -> list[str]:
    return [f" {limit}" if i < count else f"{3 + i / 7:.2f}" for i in range(N)]


def test_a_limit_that_means_missing_is_an_alarm() -> None:
    for token in ("<0.5", "crp=<0.5"):
        [line] = said({"crp": below("<0.5", 9)}, token, "?")
        assert line == (
            "'<0.5' means missing by --na-values in column 'crp' (9 cells), where usual values are filled in, which "
            "biases every analysis: a detection limit is no missing cell: write the limit itself (0.5) or a value "
            "below it (0.49) instead; values that pile up are modelled as such"
        )
        assert isinstance(line, Alarm)


def test_several_columns_and_limits_are_one_line() -> None:
    columns = {f"c{i}": below("<0.5" if i % 2 else ">200", 1 if i == 3 else 5) for i in range(7)}
    [line] = said(columns, "<0.5", ">200")
    assert line.startswith(
        "'>200', '<0.5' mean missing by --na-values in columns 'c0' (5 cells), 'c1' (5 cells), 'c2' (5 cells), 'c3' (1 "
        "cell), 'c4' (5 cells) and 2 more, where usual values are filled in"
    )
    assert "write the limit itself (200) or a value above it (201) instead" in line


@pytest.mark.parametrize("cells", [below("90+", 9), ["90+"] * N, ["90+"] * 20 + ["7.5"] * 20])
def test_open_ends_and_columns_of_nothing_else(cells: list[str]) -> None:
    [line] = said({"age": cells}, "90+")
    assert "an open end is no missing cell: write the limit itself (90) or a value above it (91) instead" in line


@pytest.mark.parametrize(
    ("cells", "token"),
    [
        (below("-999", 9), "-999"),
        (below("unknown", 9), "unknown"),
        (["<18"] * 9 + ["18 to 30", "over 30"] * 15 + ["over 30"], "<18"),  # bands, which are levels
        (below("", 9), "<0.5"),
    ],
)
def test_other_tokens_are_not(cells: list[str], token: str) -> None:
    assert not said({"x": cells}, token)


def test_words_for_a_limit_that_mean_missing_are_an_alarm() -> None:
    for token, side in (("<LOD", "below"), ("BLQ", "below"), ("not detected", "below"), ("> ULOQ", "above")):
        [line] = said({"crp": below(token, 9)}, token)
        assert line == (
            f"'{token}' means missing by --na-values in column 'crp' (9 cells), where usual values are filled in, "
            "which biases every analysis: a detection limit is no missing cell: write the limit itself or a value just "
            f"{side} it instead; values that pile up are modelled as such"
        )
        assert isinstance(line, Alarm)
    assert said({"crp": below("ND", 9)}, "ND") == []  # the user said what may mean either
