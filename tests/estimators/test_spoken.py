"""Flags of the command line in messages of an estimator: it has parameters."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from vgi_cli import Imputer
from vgi_cli.errors import InvalidInput, InvalidParameter, NotFitted, VgiWarning
from vgi_cli.estimators.spoken import in_python

PARAMETERS = Imputer._defaults()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--column zz: t has no such column", "columns={'zz': …}: t has no such column"),
        ("`--column a=ordinal:low,mid` or", "`columns={'a': 'ordinal:low,mid'}` or"),
        ("--column a=numeric, but the column", "columns={'a': 'numeric'}, but the column"),
        ("`--column 'a b=carry'`", "`columns={'a b': 'carry'}`"),
        ("--bounds a=0:1: the column", "bounds={'a': '0:1'}: the column"),
        ("--column a=carry disagrees with --id a", "columns={'a': 'carry'} disagrees with set={'table.id': ['a']}"),
        ("`--exclude a`", "`set={'table.exclude': ['a']}`"),
        ("--carry-others carries them", "set={'table.carry_others': True} carries them"),
        ("--model fa takes numbers only", "model='fa' takes numbers only"),
        ("`--set table.transform=linear`", "`set={'table.transform': 'linear'}`"),
        ("`--set model.components=3`", "`set={'model.components': 3}`"),
        ("`--seed 4`", "`random_state=4`"),
        ("`--threads 4`", "`threads=4`"),
        ("--bounds sets others", "bounds={'…': …} sets others"),
        ("--checkpoint RUN, --no-such-flag", "--checkpoint RUN, --no-such-flag"),
        ("1 - 2 -- 3", "1 - 2 -- 3"),
        ("--resume with a larger --epochs goes on", "a larger set={'epochs': …} lets it go on"),
        ("two; and 3 more, which -v lists", "two; and 3 more"),
        ("ends; -v lists the limits, --bounds sets others", "ends; bounds={'…': …} sets others"),
        (
            "nothing (`vgi impute --leave-blank b:a=0` does); `--exclude a` it",
            "nothing; `set={'table.exclude': ['a']}` it",
        ),
    ],
)
def test_flags_become_parameters(typed: str, said: str) -> None:
    assert in_python(typed, PARAMETERS) == said


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"a": rng.normal(size=40), "c": rng.choice(["u", "v"], 40)})
    made.loc[::5, "a"] = np.nan
    return made


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"columns": {"zz": "numeric"}}, "columns={'zz': …}: the table has no such column (expected one of: a, c)"),
        ({"columns": {"a": "integer"}}, "(`columns={'a': 'numeric'}`?)"),
        ({"bounds": {"zz": "0:1"}}, "bounds={'zz': …}: the table has no such column"),
    ],
)
def test_what_cannot_be_is_said_with_parameters_and_with_its_hint(parameters: dict, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        Imputer(**parameters).fit(table())
    assert "--" not in str(error.value)


def test_lines_and_warnings_name_parameters_too() -> None:
    made = table().assign(size=["1-9", "10-49", "50+", "1-9"] * 10)
    lines: list[str] = []
    with pytest.warns(VgiWarning) as heard:
        Imputer(model="mixture", set={"model.components": 1, "epochs": 1}, say=lines.append).fit(made)
    assert any("`columns={'size': 'ordinal:1-9,10-49,50+'}`" in line for line in lines)
    warned = [str(one.message) for one in heard if "has not converged" in str(one.message)]
    assert len(warned) == 1 and warned[0].endswith("a larger set={'epochs': …} lets it go on")
    assert f"warning: {warned[0]}" in lines
    assert not [line for line in lines if "--" in line or "-v " in line]


def test_the_hint_is_part_of_the_text_of_an_error() -> None:
    """scikit-learn shows nothing else of a failed fit."""
    imputer = Imputer(model="mixture", set={"bootstrap": "none", "trees": "none"}).fit(table())
    with pytest.raises(InvalidInput) as error:
        imputer.transform(table().replace("u", "w"))
    assert "`unseen='missing'` fills such cells" in str(error.value)
    assert error.value.message in str(error.value) and "unseen=" not in error.value.message
    assert str(InvalidParameter("no", None)) == "no" and str(NotFitted("no", "fit")) == "no (fit)"
