"""What is said of a column: `NAME=KIND[:DETAIL]`."""

from __future__ import annotations

import pytest

from vgi_cli.columns.schema import SYNONYMS, SaidKind, kind_meant, kind_words, parse_kind, split_kind
from vgi_cli.errors import UsageError
from vgi_cli.settings.gather import gather


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("age=integer", ("age", "integer")),
        ("a=b=carry", ("a=b", "carry")),
        ("x:y=numeric", ("x:y", "numeric")),
        ("age", None),
        ("age=intger", None),
    ],
)
def test_a_name_and_a_kind_are_told_apart(item: str, expected: tuple[str, str] | None) -> None:
    assert split_kind(item) == expected


def test_kinds_are_checked_without_a_table() -> None:
    assert parse_kind("x", "carry") == SaidKind("carry") and SaidKind("carry").detail is None
    with pytest.raises(UsageError, match="--column x=carry:all: 'carry' takes nothing after it, got 'all'"):
        parse_kind("x", "carry:all")
    with pytest.raises(UsageError, match="--column x=intger: unknown kind"):
        parse_kind("x", "intger")
    with pytest.raises(UsageError, match=r"columns: --column x=integer:3: after the colon comes 1234\.5"):
        gather({"data": (["a.csv"], "data"), "table.columns": ({"x": "integer:3"}, "columns")})


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *(("Categorical", "categorical"), ("nominal", "categorical"), ("Factor", "categorical")),
        *(("string", "categorical"), ("float", "numeric"), ("int", "integer"), ("bool", "boolean")),
        *(("INTEGER", "integer"), ("dat", "date"), ("qqq", None)),
    ],
)
def test_the_kind_that_a_word_is_meant_for(word: str, kind: str | None) -> None:
    assert kind_meant(word) == kind
    with pytest.raises(UsageError, match=f"--column x={word}: unknown kind") as caught:
        parse_kind("x", word)
    assert (caught.value.hint == f"did you mean '{kind}'?") == (kind is not None)


def test_every_synonym_is_meant_for_a_kind_and_is_none() -> None:
    assert set(SYNONYMS.values()) <= set(kind_words()) and set(SYNONYMS).isdisjoint(kind_words())
