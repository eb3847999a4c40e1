"""CSV files as one table, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgi_cli.table.base import Table
from vgi_cli.table.csv.rows import CsvRows, line_end
from vgi_cli.table.csv.table import CsvTable
from vgi_cli.table.csv.text import line_number, rewrite
from vgi_cli.table.files import TableFile
from vgi_cli.table.join import same_names


def csv_tables(files: Sequence[TableFile], na_values: Sequence[str], rows: Iterator[int]) -> Iterator[Table]:
    """The rows of all files, as many at a time as `rows` says (fewer at the end of a file), columns as in the first."""
    first = 0
    names: tuple[str, ...] = ()
    delimiter, newline = files[0].delimiter, b""
    for number, one in enumerate(files):
        with one.open() as file:
            reader = CsvRows(file, one.label, one.delimiter, more=number < len(files) - 1, newline=newline)
            while (piece := reader.take(next(rows))) is not None:
                csv, begin, lines = piece
                names, newline = names or csv.names, newline or line_end(csv)
                same_names(names, csv.names, one.label, files[0].label)
                if csv.names != names or csv.delimiter != delimiter:
                    lines += line_number(csv.text, csv.header[2]) - 1 if begin == 0 else 0
                    csv = rewrite(csv, names, delimiter)
                    begin = csv.header[2]
                table = CsvTable(
                    csv,
                    sources=[(0, one.label, begin, lines)],
                    na_values=na_values,
                    sha256="",
                    label=one.label,
                    stem="",
                    suffix="",
                    first=first,
                    several=len(files) > 1,
                )
                yield table
                first += table.N
