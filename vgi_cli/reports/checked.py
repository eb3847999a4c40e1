"""The page of a check: what to look at in a table before it is fitted, and pictures of what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.wording import shortened
from vgi_cli.reports.drawing import IMPUTED, OBSERVED, Canvas, matrix, short
from vgi_cli.reports.sections import Figure, Grid, Part, Section
from vgi_cli.reports.values import Verdict

WIDEST = 40
"""Columns of the picture of the patterns at most."""
HOW_MATRIX = (
    "Rows of the table from top to bottom; what is missing is orange. Bands across are rows that lack much, a column "
    "that changes at some row was recorded from there on, and columns with the same stripes are missing together."
)
HOW_PATTERNS = (
    "Each line is a set of columns that are missing together (orange), with the number of its rows; blue is observed. "
    "Only columns with a hole in these rows are shown. Many lines of few rows each say that no rule of the recording "
    "decides what is missing."
)


def verdicts(values: Mapping[str, Any]) -> list[Verdict]:
    """What to look at, of the JSON object of a check; one that says so where there is nothing."""
    missing, mcar = values["missing"], values["mcar"]
    found = [Verdict("suspects", "look", line) for line in values["suspects"]]
    if nothing := missing["rows_with_nothing"]:
        rows = f"{nothing:,} rows have" if nothing > 1 else "1 row has"
        found.append(
            Verdict(
                "missing",
                "look",
                f"{rows} no cell of a modelled column: a fit does not use {'them' if nothing > 1 else 'it'}",
            )
        )
    if pairs := missing["never_together"]["pairs"]:
        text = f"{pairs:,} pair{'s' * (pairs > 1)} of columns {'are' if pairs > 1 else 'is'} never observed together"
        found.append(Verdict("together", "look", text))
    if mcar.get("rejected"):
        found.append(Verdict("mcar", "look", mcar["verdict"]))
    return found or [Verdict("missing", "good", "nothing in this table stands in the way of a fit")]


def lead(values: Mapping[str, Any]) -> str:
    """The table in a sentence."""
    table, missing = values["table"], values["missing"]
    modelled = sum(column["modelled"] for column in values["columns"])
    return (
        f"{table['rows']:,} rows and {table['columns']:,} columns, of which {modelled:,} would be modelled; "
        f"{missing['share']:.1%} of their cells are missing, and {missing['complete_rows']:,} rows are complete."
    )


def sections(values: Mapping[str, Any], shares: Floats, fits: Sequence[Sequence[str]]) -> list[Section]:
    """The sections of the page.

    shares  [r, modelled columns] of missing cells, in groups of consecutive rows
    fits    a line for each model, the first one their heads: what a fit would take; empty where it is not known
    """
    names = [column["name"] for column in values["columns"] if column["modelled"]]
    apart, notes, kept = values["missing"]["never_together"], values["notes"], values["relations"]
    found = [
        Section("columns", "Columns", [Part(grids=[_columns(values["columns"])])]),
        Section(
            "missing", "What is missing", list(_missing(values["missing"], values["table"]["rows"], names, shares))
        ),
        Section("together", "Columns never observed together", [_apart(apart)] if apart["pairs"] else []),
        Section("kept", "What holds in every row", [Part(grids=[_lines("Fills keep to these", kept)])] if kept else []),
        Section("mcar", "Missing completely at random? Little's test", [_mcar(values["mcar"])]),
        Section("models", "Time and memory of a fit", [_models(values["models"]["how"], fits)] if fits else []),
        Section("notes", "Notes", [Part(grids=[_lines("What a fit would say", notes)])] if notes else []),
    ]
    return [section for section in found if section.parts]


def _lines(caption: str, lines: Sequence[str]) -> Grid:
    return Grid(caption, ("",), [(_sentence(line),) for line in lines])


def _columns(columns: Sequence[Mapping[str, Any]]) -> Grid:
    rows = [(own["name"], own["kind"], f"{own['missing_share']:.1%}", shortened(own["why"])) for own in columns]
    return Grid("What a fit would take each column for", ("column", "kind", "missing", "cells"), rows)


def _missing(missing: Mapping[str, Any], rows: int, names: Sequence[str], shares: Floats) -> Iterator[Part]:
    top = missing["top_patterns"]
    if not any(one["missing"] for one in top):
        yield Part(text="No modelled column has a hole.")
        return
    counts = [(k, f"{n:,}") for k, n in missing["rows_by_missing_cells"].items()]
    by_row = Grid("Of the modelled columns", ("missing cells", "rows"), counts)
    alt = f"Missing cells of {len(names)} columns by row; {missing['share']:.1%} are missing."
    yield Part(
        figures=[Figure(matrix("matrix", shares, names, rows, alt), HOW_MATRIX, "Missing cells by row")],
        more=[("Rows by their number of missing cells", by_row)],
    )
    lines = [(f"{one['rows']:,}", f"{one['share']:.1%}", ", ".join(one["missing"]) or "nothing") for one in top]
    grid = Grid(f"The most frequent of {missing['patterns']:,} patterns", ("rows", "share", "missing"), lines)
    yield Part(
        figures=[Figure(patterns(top, names), HOW_PATTERNS, "Columns that are missing together")],
        more=[("The same in words", grid)],
    )


def patterns(top: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """The markup of the picture of the most frequent patterns."""
    rows = np.array([one["rows"] for one in top])
    absent = np.array([[name in one["missing"] for name in names] for one in top])
    often = np.argsort(-(absent * rows[:, None]).sum(0), kind="stable")[:WIDEST]
    shown = np.sort(often[absent[:, often].any(0)])
    height = 0.9 + 0.24 * len(top)
    with Canvas("patterns", min(7.0, max(3.0, 0.3 * len(shown) + 1.6)), height) as canvas:
        own = canvas.axes[0]
        for line, gone in enumerate(absent[:, shown]):
            for colour, which in ((IMPUTED, gone), (OBSERVED, ~gone)):
                places = np.flatnonzero(which)
                own.barh(
                    np.full(len(places), line),
                    np.full(len(places), 0.9),
                    height=0.8,
                    left=places - 0.45,
                    color=colour,
                    alpha=0.9 if colour == IMPUTED else 0.25,
                )
        own.set_yticks(range(len(top)), [f"{n:,}" for n in rows])
        own.set_xticks(
            range(len(shown)), [short(names[i]) for i in shown], rotation=60, ha="right", rotation_mode="anchor"
        )
        own.set_xlim(-0.6, len(shown) - 0.4)
        own.invert_yaxis()
        own.set_ylabel("rows")
        own.grid(False)
    first = ", ".join(top[0]["missing"]) or "nothing"
    return canvas.markup(f"The {len(top)} most frequent patterns of missing columns; the first lacks {first}.")


def _apart(apart: Mapping[str, Any]) -> Part:
    grid = Grid("Pairs that no row shows both of", ("column", "and"), [tuple(pair) for pair in apart["first"]])
    return Part(text=_sentence(apart.get("meaning", "")), grids=[grid])


def _mcar(mcar: Mapping[str, Any]) -> Part:
    if "why_not" in mcar:
        return Part(text=f"The test was not made: {mcar['why_not']}.")
    columns = len(mcar["columns"])
    rows = [
        ("chi-squared", f"{mcar['statistic']:.2f}"),
        ("degrees of freedom", f"{mcar['df']:,}"),
        ("p-value", f"{mcar['p_value']:.3g}"),
        ("patterns", f"{mcar['patterns']:,}"),
        ("rows", f"{mcar['rows']:,}"),
    ]
    grids = [Grid(f"Of {columns} columns of numbers", ("", ""), rows), _lines("What to keep in mind", mcar["caveats"])]
    return Part(text=_sentence(mcar["verdict"]), grids=grids)


def _models(how: str, fits: Sequence[Sequence[str]]) -> Part:
    return Part(text=_sentence(how), grids=[Grid("By model", fits[0], fits[1:])])


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
