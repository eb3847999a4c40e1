"""A part of a sum that does not vary in the rows which show it: others tell it, or its name does."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tests.encoding.test_relations import hidden, kept, schema_of
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.redundant import kept_to_tell, kept_words, rest_of_kept
from vgi_cli.table.frames import from_frame

PARTS = [f"sp{i}" for i in range(1, 6)]


def counted(n: int = 300, *, part: bool = True, other: str = "sp2", decides: bool = True) -> tuple[pd.DataFrame, ...]:
    """Counts of species and their total, all cells and with holes: one of the species is 0 in all complete rows, and is
    a `part` of the total or not. It has the name `other`; `decides`: whether rows lack one part alone."""
    rng = np.random.default_rng(0)
    names = ["sp1", other, *PARTS[2:]]
    frame = pd.DataFrame(rng.poisson([2.0, 0.15, 0.5, 1.5, 0.8], (n, 5)), columns=names)
    frame["abundance"] = frame[names if part else [name for name in names if name != other]].sum(axis=1)
    frame["ph"] = rng.normal(6, 1, n).round(2)
    holes, rare = hidden(frame), np.flatnonzero(frame[other] > 0)
    lost = np.array([name for name in names if name != other])
    for i, row in enumerate(rare):
        holes.loc[row, lost[[i % 4]] if decides else lost] = True
    for row in rng.permutation(np.setdiff1d(np.arange(n), rare))[:80]:
        holes.loc[row, rng.choice(names)] = True
    if not decides:  # the parts of these rows come to anything
        holes.loc[rare, "abundance"] = True
    return frame, frame.mask(holes), holes


def lines_on(name: str, frame: pd.DataFrame) -> list[str]:
    return [line for line in infer_schema(from_frame(frame))[1] if line.startswith(f"column '{name}' is taken for ")]


def test_rows_that_lack_other_parts_tell_that_it_is_one() -> None:
    frame, holed, holes = counted()
    schema = schema_of(holed)
    (relation,) = [one for one in schema.relations if one.how == "sum"]
    assert relation.names == ("abundance", *PARTS) and set(relation.weights[1:]) == {-1.0} and relation.constant == 0
    (line,) = lines_on("sp2", holed)
    assert "is taken for a part of 'abundance' = 'sp1' + 'sp2' + 'sp3' + … (2 more): it is 0 in all rows" in line
    assert line.endswith("what rows that lack other parts leave of the total says so")
    for one in kept(frame, holes, schema):
        assert (one[PARTS].sum(axis=1) == one.abundance).all()


def test_a_column_of_a_like_name_that_is_none_is_left_out() -> None:
    _, holed, _ = counted(part=False)
    (relation,) = [one for one in schema_of(holed).relations if one.how == "sum"]
    assert relation.names == ("abundance", *(name for name in PARTS if name != "sp2"))
    (line,) = lines_on("sp2", holed)
    assert "is taken for no part of" in line


def test_its_name_decides_where_no_row_does() -> None:
    _, holed, _ = counted(decides=False)
    (relation,) = [one for one in schema_of(holed).relations if one.how == "sum"]
    assert relation.names == ("abundance", *PARTS)
    (line,) = lines_on("sp2", holed)
    assert line.endswith("its name is like those of the other parts")
    _, holed, _ = counted(decides=False, other="visits")
    (relation,) = [one for one in schema_of(holed).relations if one.how == "sum"]
    assert "visits" not in relation.names and lines_on("visits", holed) == []


def test_a_part_of_another_name_is_one_where_rows_tell_it() -> None:
    for part in (True, False):
        _, holed, _ = counted(other="lynx", part=part)
        (relation,) = [one for one in schema_of(holed).relations if one.how == "sum"]
        assert ("lynx" in relation.names) == part


def test_where_it_is_open_the_sum_is_not_kept_to() -> None:
    frame, holed, _ = counted(other="lynx")
    holed.loc[frame.index[frame.lynx > 0][3:], "abundance"] = np.nan  # few rows tell, and its name says nothing
    assert not [one for one in schema_of(holed).relations if one.how == "sum"]


def test_details_list_all_parts() -> None:
    schema = schema_of(counted()[1])
    every = "'abundance' = 'sp1' + 'sp2' + 'sp3' + 'sp4' + 'sp5'"
    assert kept_to_tell(schema, whole=True)[0] == every and "… (2 more)" in kept_to_tell(schema)[0]
    assert "… (2 more)" in kept_words(schema)[0] and rest_of_kept(schema)[0] == f"in every row, and in fills: {every}"
