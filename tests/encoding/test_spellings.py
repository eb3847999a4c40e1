"""Lines about what the texts of levels say, and about whole numbers that are none: dates, codes, ids beyond 2^53."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from tests.table.helpers import from_text
from vgi_cli.columns.categorical import Categorical
from vgi_cli.columns.ordinal import Ordinal
from vgi_cli.columns.word_scales import in_order
from vgi_cli.columns.wording import Alarm
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.table.base import Table

N = 60
OTHER = [f"{value:.3f}" for value in np.random.default_rng(0).normal(size=N)]


def table(**columns: list[object]) -> Table:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([*columns, "other"])
    writer.writerows(zip(*columns.values(), OTHER, strict=True))
    return from_text(out.getvalue())


def notes(**columns: list[object]) -> list[str]:
    return infer_schema(table(**columns))[1]


FAILED = ("#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")


@pytest.mark.parametrize("word", ["n/a", "<NA>", "\\N", *FAILED])
def test_what_programs_write_and_failed_formulas_are_missing(word: str) -> None:
    of = table(x=[word if i % 5 == 0 else i for i in range(N)])
    assert of.missing("x").sum() == N / 5
    assert schema_alone(of).columns[0].kind == "integer"


@pytest.mark.parametrize(
    "order",
    [
        ["Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"],
        ["disagree", "neither", "agree"],
        ["Dissatisfied", "Neither", "Satisfied"],
        ["unlikely", "neither likely nor unlikely", "likely"],
        ["low", "medium", "high"],
        ["Low", "Mid", "High"],
        ["under", "normal", "over", "obese"],
        ["Poor", "Fair", "Good", "Very good", "Excellent"],
        ["Fair", "Good", "Very Good", "Premium", "Ideal"],
        ["Never", "Sometimes", "Often", "Always"],
        ["18-24", "25-34", "35-44", "45-54", "55-64", "65+"],
        ["under 18", "18 to 29", "30 to 59", "60 and over"],
        ["0 - 9 years", "10 - 19 years", "20 - 29 years"],
        ["< 20,000", "20,000-50,000", "50,000+"],
        ["S", "M", "L", "XL"],
        ["primary", "secondary", "bachelor", "master"],
        ["ground", "1st", "2nd", "3rd", "10th"],
        ["first", "second", "third"],
        ["I", "II", "III", "IV", "IX"],
        ["Stage I", "Stage IIa", "Stage IIb", "Stage III"],
        ["grade 1", "grade 2", "grade 10"],
        ["1st quartile", "2nd quartile", "3rd quartile", "4th quartile"],
    ],
)
def test_scales_of_words_and_bands_are_named_in_their_order(order: list[str]) -> None:
    assert in_order(sorted(order, reverse=True)) == order
    of = table(x=[order[i % len(order)] for i in range(N)])
    [line] = [line for line in infer_schema(of)[1] if "look like a scale" in line]
    flag = line.partition("--column ")[2].partition("`")[0].strip("'").removeprefix("x=")
    [column] = [column for column in infer_schema(of, kinds={"x": flag})[0].columns if column.name == "x"]
    assert isinstance(column, Ordinal) and list(column.levels) == order
    assert not any("look like a scale" in line for line in infer_schema(of, kinds={"x": "categorical"})[1])


@pytest.mark.parametrize(
    "levels",
    [
        ["red", "green", "blue"],
        ["low", "high"],
        ["low", "blue", "high"],
        ["1-3", "2-5", "6+"],
        ["3", "5", "7"],
        ["1-2", "x"],
        ["I", "II", "2"],  # written in two ways
        ["Type I", "Type II", "Type III"],  # names
        ["site 1", "site 2", "site 3"],
        ["ground", "basement", "attic"],
    ],
)
def test_other_levels_have_no_order(levels: list[str]) -> None:
    assert in_order(levels) is None


def test_several_spellings_of_a_level_are_said() -> None:
    cells = ["Male", "male", "Female", "F", "MALE", "N.Y.", "NY"]
    assert (
        "column 'x' has levels that look like one in several spellings: 'MALE', 'Male', 'male'; 'N.Y.', 'NY'; each is "
        "a level of its own until the table spells them alike"
    ) in notes(x=[cells[i % len(cells)] for i in range(N)])
    assert not any("spellings" in line for line in notes(x=["1", "01", "1-1"] * 20))
    assert not any("spellings" in line for line in notes(x=["a", "b", "c"] * 20))


def test_dates_and_months_written_as_numbers_are_an_alarm() -> None:
    days = [f"2019{i % 12 + 1:02}{i % 28 + 1:02}" for i in range(N)]
    months = [f"{2015 + i // 12}{i % 12 + 1:02}" for i in range(N)]
    found = notes(d=days, m=months)
    dates = (
        "all cells of column 'd' are dates like 20190101, modelled as quantities: fills may be none. "
        "`--column d=date:%Y%m%d` if they are"
    )
    period = (
        "all cells of column 'm' are months like 201501, modelled as quantities: fills may be none. "
        "`--column m=carry`, or write them as dates, if they are"
    )
    assert all(any(line == said and isinstance(line, Alarm) for line in found) for said in (dates, period))
    assert infer_schema(table(d=days), kinds={"d": "date:%Y%m%d"})[0].columns[0].kind == "date"
    for kinds in ({"d": "integer"}, {"d": "date:%Y%m%d"}):
        assert not any("are dates like" in line for line in infer_schema(table(d=days), kinds=kinds)[1])
    assert not any("like" in line for line in notes(d=[20_190_000 + 137 * i for i in range(N)]))


def test_names_of_codes_and_numbers_beyond_float64_are_said() -> None:
    found = notes(zip_code=[10_000 + 321 * i for i in range(N)], big=[9_007_199_254_740_993 + 2 * i for i in range(N)])
    assert (
        "column 'zip_code' has the name of a code, and is modelled as a quantity: `--column zip_code=carry` or "
        "`--exclude zip_code` if it is one"
    ) in found
    assert any("column 'big' holds whole numbers beyond 2^53" in line for line in found)
    assert not any("name of a code" in line for line in notes(zipper=[10_000 + 321 * i for i in range(N)]))


def test_a_code_of_one_column_is_named_in_all_that_hold_it() -> None:
    rng = np.random.default_rng(0)
    ages = [-1 if i % 4 == 0 else int(v) for i, v in enumerate(rng.integers(18, 80, N))]
    kids = [-1 if i % 15 == 3 else int(v) for i, v in enumerate(rng.integers(0, 4, N))]
    debts = [int(v) for v in rng.integers(-5, 9, N)]
    [line] = [line for line in notes(age=ages, kids=kids, debt=debts) if line.startswith("-1 (")]
    assert line.startswith("-1 (19 cells) is negative, unlike all other values of columns 'age', 'kids':")


def test_a_line_of_totals_is_known_though_cells_are_missing() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(1, 9, N - 1), rng.integers(4, 30, N - 1)
    cells = [["" if rng.random() < 0.15 else int(v) for v in values] + [int(values.sum())] for values in (x, y)]
    found = infer_schema(table(x=cells[0], y=cells[1]))[1]
    assert "row 60 (line 61) looks like a line of totals (the sums of columns 'x', 'y'): delete it" in found
    tall = [["" if rng.random() < 0.15 else int(v) for v in values] + [3 * int(values.sum())] for values in (x, y)]
    assert not any("totals" in line for line in infer_schema(table(x=tall[0], y=tall[1]))[1])


@pytest.mark.parametrize(
    ("levels", "shown"),
    [
        (
            ["caf\u00e9", "cafe\u0301", "bar"],
            "'cafe\u0301', 'caf\u00e9' (an accented letter is one character or two: NFC, NFD)",
        ),
        (["CAF\u00c9", "cafe\u0301", "bar"], "'CAF\u00c9', 'cafe\u0301'"),
        (["True", "False", "1", "0"], "'0', 'False'; '1', 'True'"),
        (["yes", "no", "1.0", "0.0"], "'0.0', 'no'; '1.0', 'yes'"),
        (["yes", "no", "true"], "'true', 'yes'"),
        (["caf\u00e9", "cafe", "bar"], ""),
        (["N", "T", "F"], ""),
        (["yes", "no", "0", "2"], ""),
        (["yes", "no"], ""),
    ],
)
def test_accents_and_truth_values_in_several_spellings(levels: list[str], shown: str) -> None:
    lines = [line for line in notes(x=[levels[i * 7 % len(levels)] for i in range(N)]) if "several spellings" in line]
    if shown:
        [line] = lines
        assert line.startswith(
            f"column 'x' has levels that look like one in several spellings: {shown}; each is a level"
        )
    else:
        assert lines == []


class TestWordsForMissing:
    """Words that usually mean missing, in columns where they may be levels."""

    GRADE = tuple("None" if i % 3 else ("Mild", "Severe")[i % 2] for i in range(N))

    @staticmethod
    def said(**columns: list[object]) -> list[str]:
        return [line for line in notes(**columns) if "taken for missing in column" in line]

    def test_a_word_that_is_every_hole_of_texts_is_named_with_the_flag_that_keeps_it(self) -> None:
        [line] = self.said(grade=[*self.GRADE])
        assert line == (
            "'None' (40 cells) is taken for missing in column 'grade', which has no empty cell: "
            "`--na-values grade=` if it is a level"
        )
        assert isinstance(line, Alarm)
        kept = from_text("grade\n" + "\n".join(self.GRADE), na_values=["grade="])
        assert schema_alone(kept).columns[0].kind == "categorical" and not kept.missing("grade").any()
        assert not [line for line in infer_schema(kept)[1] if "taken for missing" in line]

    def test_beside_one_other_text_and_of_several_words(self) -> None:
        [line] = self.said(allergy=["None" if i % 3 else "Peanut" for i in range(N)])
        assert "'None' (40 cells) is taken" in line
        [line] = self.said(allergy=[("None", "N/A", "Peanut", "Dust")[i % 4] for i in range(N)])
        assert "'N/A' (15 cells) and 'None' (15 cells) are taken for missing" in line and "if they are levels" in line

    def test_what_a_program_may_have_written_is_no_warning(self) -> None:
        countries: list[object] = [("NA", "DE", "US", "FR")[i % 4] for i in range(N)]
        [line] = self.said(country=countries)
        assert "'NA' (15 cells) is taken for missing in column 'country'" in line and not isinstance(line, Alarm)
        [line] = self.said(country=countries, x=["" if i % 7 == 0 else OTHER[i] for i in range(N)])
        assert isinstance(line, Alarm)  # the table has empty cells for what is missing

    def test_marks_of_the_table_are_not_named(self) -> None:
        countries: list[object] = [("NA", "DE", "US", "FR")[i % 4] for i in range(N)]
        assert self.said(country=countries, x=["NA" if i % 7 == 0 else OTHER[i] for i in range(N)]) == []
        assert (
            self.said(country=countries, day=["NA" if i % 7 == 0 else f"2020-01-{i % 28 + 1:02}" for i in range(N)])
            == []
        )
        assert self.said(country=countries, sex=[("NA", "m", "f")[i % 3] for i in range(N)]) == []
        assert self.said(code=[("NA", 1, 2, 7)[i % 4] for i in range(N)]) == []
        assert self.said(grade=["" if i % 9 == 0 else grade for i, grade in enumerate(self.GRADE)]) == []
        named = from_text("grade\n" + "\n".join(self.GRADE), na_values=["None"])
        assert not [line for line in infer_schema(named)[1] if "taken for missing" in line]

    @pytest.mark.parametrize("hole", ["", "NA", "nan", "\\N"])
    def test_none_beside_holes_written_otherwise_is_a_level(self, hole: str) -> None:
        cells: list[object] = [hole if i % 10 == 0 else grade for i, grade in enumerate(self.GRADE)]
        read = table(grade=cells)
        schema, lines = infer_schema(read)
        [column] = [column for column in schema.columns if column.name == "grade"]
        assert isinstance(column, Categorical) and set(column.levels) == {"None", "Mild", "Severe"}
        assert read.missing("grade").tolist() == [cell == hole for cell in cells]
        assert [line for line in lines if "'None'" in line] == [
            f"'None' ({cells.count('None')} cells) is a level of column 'grade': `--na-values grade=None` if it means "
            "missing"
        ]
        again = read.hiding({})
        assert (again.missing("grade") == read.missing("grade")).all()

    @pytest.mark.parametrize("hole", ["", "NA", "null"])
    def test_none_alone_is_a_level_where_other_columns_write_missing_cells_otherwise(self, hole: str) -> None:
        other: list[object] = [hole if i % 7 == 0 else value for i, value in enumerate(OTHER)]
        read = table(grade=[*self.GRADE], x=other)
        schema, lines = infer_schema(read)
        assert schema.columns[0].kind == "categorical" and not read.missing("grade").any()
        assert [line for line in lines if "'None'" in line] == [
            "'None' (40 cells) is a level of column 'grade': `--na-values grade=None` if it means missing"
        ]
        assert self.said(grade=[*self.GRADE], x=other) == []
        text = "grade,x\n" + "\n".join(f"{a},{b}" for a, b in zip(self.GRADE, other, strict=True))
        named = from_text(text, na_values=["grade=None"])
        infer_schema(named)
        assert named.missing("grade").sum() == 40

    def test_none_alone_stays_missing_where_the_table_says_so_or_nothing(self) -> None:
        other: list[object] = ["NA" if i % 7 == 0 else value for i, value in enumerate(OTHER)]
        third: list[object] = ["null" if i % 5 == 0 else "ab"[i % 2] for i in range(N)]
        for columns in (
            {"x": [*OTHER]},
            {"x": other, "y": ["None" if i % 9 == 0 else value for i, value in enumerate(OTHER)]},
            {"x": other, "z": third},  # programs wrote it in several ways: one more is likely
        ):
            read = table(grade=[*self.GRADE], **columns)
            infer_schema(read)
            assert read.missing("grade").sum() == 40, columns

    def test_none_beside_holes_stays_missing_where_it_is_a_mark_or_was_named(self) -> None:
        cells: list[object] = ["" if i % 10 == 0 else grade for i, grade in enumerate(self.GRADE)]
        tables = [
            table(grade=cells, x=["None" if i % 7 == 0 else value for i, value in enumerate(OTHER)]),
            table(grade=cells, day=["None" if i % 7 == 0 else f"2020-01-{i % 28 + 1:02}" for i in range(N)]),
            table(grade=["" if i % 10 == 0 else ("None", 1, 2, 7)[i % 4] for i in range(N)]),
            table(grade=["" if i % 10 == 0 else ("None", "True", "False")[i % 3] for i in range(N)]),
        ]
        for token in ("None", "grade=None"):
            tables.append(from_text("grade\n" + "\n".join(f'"{cell}"' for cell in cells), na_values=[token]))
        for read in tables:
            words = [str(text) in ("", "None") for text in read.raw_text("grade")]
            infer_schema(read)
            assert any(words) and read.missing("grade").tolist() == words
        two: list[object] = [("N/A", "None", "Peanut", "Dust")[i % 4] for i in range(N)]
        read = table(allergy=two)  # both may be answers, and nothing says how a missing cell is written
        infer_schema(read)
        assert read.missing("allergy").sum() == N / 2


class TestWordsAsLevels:
    """Words that usually mean missing, beside holes that are written otherwise, where they are most likely levels."""

    COUNTRIES = ("Germany", "United States", "France", "Namibia")
    CODES = ("DE", "US", "FR", "NA")

    def codes(self, n: int = 200) -> tuple[list[object], list[object]]:
        """Names of countries and their codes, each tenth of these empty."""
        places = np.random.default_rng(1).integers(0, 4, n).tolist()
        return [self.COUNTRIES[p] for p in places], ["" if i % 10 == 0 else self.CODES[p] for i, p in enumerate(places)]

    @staticmethod
    def of(**columns: list[object]) -> tuple[Table, list[str]]:
        n = len(next(iter(columns.values())))
        columns["size"] = [f"{value:.3f}" for value in np.random.default_rng(0).normal(size=n)]
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
        read = from_text("\n".join(lines))
        return read, infer_schema(read)[1]

    def test_a_word_that_goes_with_one_level_as_the_levels_do_is_named_and_makes_no_rule(self) -> None:
        names, codes = self.codes()
        read, lines = self.of(country=names, code=codes)
        [line] = [line for line in lines if "'NA'" in line]
        assert isinstance(line, Alarm)
        assert line == (
            f"'NA' ({codes.count('NA')} cells) is taken for missing in column 'code', as its other holes are: "
            "`--na-values code=` if it is a level (it stands beside 'Namibia' of column 'country' alone, as each level "
            "stands beside one)"
        )
        assert not [line for line in lines if "--leave-blank" in line or "is not 'Namibia'" in line]
        assert schema_alone(read).skips == ()

    def test_no_rule_where_all_holes_are_such_a_word(self) -> None:
        names, codes = self.codes()
        _, lines = self.of(country=names, code=[code or "DE" for code in codes])
        assert [line for line in lines if "which has no empty cell" in line]
        _, lines = self.of(country=names, code=["NA" if name == "Namibia" else name[:2] for name in names])
        assert not [line for line in lines if "--leave-blank" in line or "is not 'Namibia'" in line]

    def test_a_word_among_many_codes_of_two_letters_is_named(self) -> None:
        some = ["DE", "US", "FR", "IT", "ES", "PL", "NO", "CA", "MX", "BR", "NA", ""]
        codes = [some[i % 12] for i in range(240)]
        [line] = [line for line in self.of(code=codes)[1] if "taken for missing" in line]
        assert line.endswith("if it is a level (all levels are codes of two capital letters)")
        few = [code if code in ("NA", "") else some[i % 4] for i, code in enumerate(codes)]
        long = [code if code in ("NA", "") else f"{code}X" for code in codes]
        for other in (few, long):
            assert not [line for line in self.of(code=other)[1] if "taken for missing" in line]

    def test_words_that_are_missing_cells_are_not_named(self) -> None:
        names, codes = self.codes()
        chance: list[object] = ["NA" if i % 7 == 0 else code for i, code in enumerate(c or "DE" for c in codes)]
        chance = [
            "" if i % 10 == 0 else code if name != "Namibia" else "XX"
            for i, (code, name) in enumerate(zip(chance, names, strict=True))
        ]
        marked: list[object] = ["NA" if i % 9 == 0 else i for i in range(len(names))]
        kinds = ["Dog", "Cat", "Bird", "None at all"]
        breeds = [
            ("NA" if k == 3 else f"{kinds[k]} {i % 3}") if i % 10 else "" for i, k in enumerate(np.arange(200) % 4)
        ]
        for columns in (
            {"country": names, "code": chance},
            {"country": names, "code": codes, "marked": marked},
            {"pet": [kinds[i % 4] for i in range(200)], "breed": breeds},
        ):
            assert not [line for line in self.of(**columns)[1] if "taken for missing" in line], columns

    def test_a_column_that_does_not_apply_beside_a_level_keeps_its_rule(self) -> None:
        names, _ = self.codes()
        of = dict(zip(self.COUNTRIES, self.CODES, strict=True))
        codes: list[object] = [
            of[str(name)] if name != "Namibia" else ("", "NA")[i % 2] for i, name in enumerate(names)
        ]
        lines = self.of(country=names, code=codes)[1]
        assert [line for line in lines if "--leave-blank code:country=Namibia" in line]
        assert not [line for line in lines if "taken for missing" in line]
