"""Hostile tables, from a seed: CSV of every magnitude, spelling, quoting and damage; Parquet of every type of Arrow."""

from __future__ import annotations

import codecs
import io
import json
import math
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MISSING = ("", "", "", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", " ", " NA ")
NAMES = (
    *(
        "a",
        "b",
        "c",
        "x1",
        "x2",
        "y",
        "Größe",
        "名前",
        "😀",
        "two words",
        " padded",
        "2020",
        "1.5",
        "NA",
        "nan",
        "e\u0301",
    ),
    *(
        ".id",
        ".imp",
        "all",
        "-",
        "--force",
        "a=b",
        'q"uote',
        "new\nline",
        "com,ma",
        "semi;colon",
        "tab\there",
        "__class__",
    ),
    *("'", "{", "%s", "\\", "/", "..", "x" * 300, "\u200b", "\ufeffz", "column", "mean", "loglik", "COL", "col"),
)
MAGNITUDES = (
    -320,
    -307,
    -279,
    -200,
    -100,
    -30,
    -20,
    -10,
    -6,
    -3,
    -1,
    0,
    0,
    0,
    1,
    2,
    3,
    6,
    9,
    12,
    15,
    18,
    30,
    100,
    200,
    279,
    307,
)
LARGEST = 1.7976931348623157e308


class Written(NamedTuple):
    """A CSV text by its parts: what precedes the rows, the raw cells of each row, and what ends it."""

    head: str
    rows: list[list[str]]
    ends: list[str]
    delimiter: str

    def text(self) -> str:
        lines = (self.delimiter.join(row) + end for row, end in zip(self.rows, self.ends, strict=True))
        return self.head + "".join(lines)


class Case(NamedTuple):
    """A table and how it is treated.

    name     its file
    data     its bytes
    fit      further arguments of `vgi fit`
    impute   further arguments of `vgi impute`
    written  what the bytes are made of, where they are a CSV text without damage
    blocks   rows that are read at a time, 0 for as many as always
    """

    name: str
    data: bytes
    fit: tuple[str, ...] = ()
    impute: tuple[str, ...] = ()
    written: Written | None = None
    blocks: int = 0


Cells = list[str]


def csv_case(seed: int) -> Case:
    """A CSV table. One in six has damaged bytes."""
    rng = Random(f"csv {seed}")
    N = rng.choice((1, 2, 3, 4, 6, 9, 12, 20, 20, 35, 60))
    width = rng.choice((1, 1, 2, 2, 3, 3, 4, 5, 6, 6, 9, 40))
    if width == 40:
        N = min(N, 6)
    columns = [rng.choice(CSV_COLUMNS)(rng, N) for _ in range(width)]
    if rng.random() < 0.6:
        columns[rng.randrange(width)] = _integers(rng, N)
    share = rng.choice((0.0, 0.1, 0.2, 0.5, 0.9))
    for column in columns:
        for i in range(N):
            if rng.random() < share:
                column[i] = rng.choice(MISSING)
    delimiter = rng.choice((",", ",", ",", ";", "\t", "|", ":", " ", "~"))
    end = rng.choice(("\n", "\n", "\n", "\r\n", "\r"))
    quoting = rng.choice(("needed", "needed", "all", "some"))

    def cell(text: str) -> str:
        must = any(c in text for c in f'"\n\r{delimiter}')
        if must or quoting == "all" or (quoting == "some" and rng.random() < 0.4):
            return '"' + text.replace('"', '""') + '"'
        return text

    names = _names(rng, width)
    rows = [[cell(column[i]) for column in columns] for i in range(N)]
    ends = [end + (rng.choice((end, "")) if width > 1 and rng.random() < 0.03 else "") for _ in range(N)]
    if rng.random() < 0.3 and not (width == 1 and not rows[-1][0]):
        ends[-1] = ""
    head = rng.choice(("", "", "\ufeff", "\ufeff\ufeff")) + (end if rng.random() < 0.03 else "")
    written = Written(head + delimiter.join(map(cell, names)) + end, rows, ends, delimiter)
    data = written.text().encode()
    name = "t.tsv" if delimiter == "\t" and rng.random() < 0.5 else "t.csv"
    fit = () if delimiter == "," or name == "t.tsv" else ("--delimiter", delimiter)
    damaged = rng.random() < 0.17
    if damaged:
        data = _damaged(rng, data)
    fit += _fit_flags(rng, names)
    unseen = damaged or names == [""]  # of one column without a name the first row is the header
    return Case(name, data, fit, _impute_flags(rng, name[2:]), None if unseen else written, rng.choice((0, 0, 1, 3)))


def _names(rng: Random, width: int) -> list[str]:
    if rng.random() < 0.7:
        names = [f"v{i}" for i in range(width)]
    else:
        names = rng.sample(NAMES, min(width, len(NAMES))) + [f"v{i}" for i in range(width - len(NAMES))]
    if rng.random() < 0.02:
        names[rng.randrange(width)] = names[0]
    if rng.random() < 0.05:
        names[0] = ""
    return names


def _fit_flags(rng: Random, names: Sequence[str]) -> tuple[str, ...]:
    flags: tuple[str, ...] = (
        "--set",
        f"table.transform={rng.choice(('linear', 'linear', 'normal', 'normal', 'normal', 'none'))}",
    )
    flags += rng.choice(
        (("--model", "mixture", "--set", "model.components=1"), ("--model", "fa", "--set", "model.factors=1"))
    )
    if rng.random() < 0.3:
        flags += ("--unbounded", "all")
    if rng.random() < 0.1:
        flags += (rng.choice(("--id", "--exclude")), rng.choice(names))
    if rng.random() < 0.1:
        flags += ("--na-values", rng.choice(("-999", "0", "1", "?", "1e400", "", "a")))
    if rng.random() < 0.1:
        flags += ("--column", f"{rng.choice(names)}={rng.choice(('integer', 'numeric', 'carry'))}")
    return flags


def _impute_flags(rng: Random, format: str) -> tuple[str, ...]:
    draw = rng.random()
    if draw < 0.6:
        return ("--m", "2", "-o", f"o.{format}")
    if draw < 0.7:
        return ("--format", "long", "--m", "2", "-o", f"o.{format}")
    if draw < 0.8:
        return ("--format", "long", "--m", "1", "-o", "o.parquet")
    if draw < 0.9:
        return ("--m", "1", "-o", "o.csv" if format == "parquet" else "o.parquet")
    return ("--m", "3", "--point", rng.choice(("mean", "median")), "-o", f"o.{format}")


def _floats(rng: Random, N: int) -> Cells:
    unit, spread = 10.0 ** rng.choice(MAGNITUDES), 10.0 ** rng.choice((-12, -6, -3, 0, 0, 0))
    centre = rng.choice((0.0, 1.0, 1.0, -5.0))
    return [_spelled(rng, unit * (centre + spread * rng.gauss(0, 1))) for _ in range(N)]


def _spelled(rng: Random, value: float) -> str:
    if not math.isfinite(value):
        value = math.copysign(LARGEST, value)
    return rng.choice((repr(value), repr(value), f"{value:.3g}", f"{value:+.17g}", f"{value:.20e}"))


def _any_magnitude(rng: Random, N: int) -> Cells:
    low, high = rng.choice(((-323.0, 308.2), (-300.0, 279.9), (-30.0, 279.9), (-300.0, 3.0), (-20.0, 20.0)))
    return [repr(rng.choice((-1, 1)) * 10 ** rng.uniform(low, high)) for _ in range(N)]


def _two_magnitudes(rng: Random, N: int) -> Cells:
    some = (
        (1e308, 1e-308),
        (LARGEST, -LARGEST),
        (1e279, 1e-308),
        (1e200, 1.0),
        (1e16, 1e-16),
        (5e-324, 1.0),
        (1e308, 0.0),
    )
    pair = rng.choice(some)
    return [repr(rng.choice(pair) * rng.choice((1.0, 1.0, rng.random()))) for _ in range(N)]


def _subnormals(rng: Random, N: int) -> Cells:
    return [repr(rng.randrange(-9, 10 ** rng.choice((1, 2, 8))) * 5e-324) for _ in range(N)]


def _neighbours(rng: Random, N: int) -> Cells:
    base = rng.choice((1.0, 1e16, 1e-260, 1e279, -7.0, 9007199254740992.0, 1e22, LARGEST / 2))
    near = [base, math.nextafter(base, math.inf), math.nextafter(base, -math.inf)]
    return [repr(rng.choice(near)) for _ in range(N)]


def _integers(rng: Random, N: int) -> Cells:
    base = rng.choice(
        (0, 0, 0, 10**3, 528_000, 10**9, 2**31, 2**53, 2**63, 10**15, 10**17, 10**18, 10**19, 10**20, 10**25, 10**40)
    )
    base *= rng.choice((1, 1, 1, -1))
    spread = rng.choice((1, 2, 3, 10, 100, 5000, 10**6, max(abs(base), 1), 10 * max(abs(base), 1)))
    step = rng.choice((1, 1, 1, 2, 5, 10, 1000))
    tail = rng.choice(("", "", "", ".0", ".00", "."))
    return [f"{base + step * rng.randrange(spread + 1)}{tail}" for _ in range(N)]


def _records(rng: Random, N: int) -> Cells:
    """Like numbers of patients: two lengths, some often."""
    some = [
        rng.choice((rng.randrange(518_000, 540_000), rng.randrange(5_200_000, 5_400_000)))
        for _ in range(max(1, N // 2))
    ]
    return [str(rng.choice(some)) for _ in range(N)]


def _digits(rng: Random, N: int) -> Cells:
    """More digits than a number can have."""
    places = rng.choice((18, 40, 330, 800))
    return [
        f"{rng.choice(('', '-'))}{rng.choice((0, 1, 7))}.{'0' * rng.randrange(places)}{rng.randrange(10**17)}"
        for _ in range(N)
    ]


def _piles(rng: Random, N: int) -> Cells:
    unit = 10 ** rng.choice((-279, -20, -3, 0, 3, 20, 279))
    pile = rng.choice((0.0, 1.0, -3.0))
    return [repr(unit * (pile if rng.random() < 0.6 else round(abs(rng.gauss(0, 3)), 2))) for _ in range(N)]


def _decimals(rng: Random, N: int) -> Cells:
    places = rng.choice((1, 2, 3, 6))
    return [f"{rng.gauss(10, 5):.{places}f}" for _ in range(N)]


def _codes(rng: Random, N: int) -> Cells:
    return [rng.choice(("1", "7", "13", "99")) for _ in range(N)]


def _odd_numbers(rng: Random, N: int) -> Cells:
    odd = (
        "1.",
        ".5",
        "+3",
        "-0",
        "0",
        "-0.0",
        "1e3",
        "1E+05",
        "1e-7",
        " 5 ",
        "\t6",
        "1e400",
        "1e-400",
        "-1e999",
        "9" * 30,
    )
    odd = odd if rng.random() < 0.3 else tuple(cell for cell in odd if "e4" not in cell and "e9" not in cell)
    pool = rng.sample(odd, 4)
    return [rng.choice(pool) for _ in range(N)]


def _constant(rng: Random, N: int) -> Cells:
    return [rng.choice(("7", "7.0", "1e308", "5e-324", "0", "-0", "1e400", "12345678901234567890"))] * N


def _empty(rng: Random, N: int) -> Cells:
    return [rng.choice(MISSING) for _ in range(N)]


def _words(rng: Random, N: int) -> Cells:
    pool = (
        "w",
        "a b",
        "ünïcode",
        "multi\nline",
        'qu"ote',
        "com,ma",
        "x" * 3,
        "'",
        "1,5",
        "0x10",
        "1_000",
        "½",
        "٣",
        "inf2",
    )
    return [rng.choice(pool) for _ in range(N)]


def _long_words(rng: Random, N: int) -> Cells:
    return ["x" * rng.choice((1, 10, 70_000 // N)) for _ in range(N)]


def _padded(rng: Random, N: int) -> Cells:
    return [f"{rng.randrange(10**4):05d}" for _ in range(N)]


def _dates(rng: Random, N: int) -> Cells:
    days = [date(1970, 1, 1) + timedelta(days=rng.randrange(-30000, 30000)) for _ in range(N)]
    style = rng.choice(("%Y-%m-%d", "%d/%m/%Y", "%Y%m%d", "%Y", "%Y-%m-%dT00:00:00Z"))
    return [day.strftime(style) for day in days]


def _booleans(rng: Random, N: int) -> Cells:
    pair = rng.choice((("0", "1"), ("true", "false"), ("T", "F"), ("yes", "no"), ("1", "2")))
    return [rng.choice(pair) for _ in range(N)]


def _mixed(rng: Random, N: int) -> Cells:
    tokens = ("?", "-999", "inf", "-Infinity", "x", "12abc", "1,000", "#N/A", ".", "-", "e5", "1e", "0012")
    token, share = rng.choice(tokens), rng.choice((0.02, 0.08, 0.3))
    return [token if rng.random() < share else f"{rng.gauss(0, 1):.2f}" for _ in range(N)]


CSV_COLUMNS: tuple[Callable[[Random, int], Cells], ...] = (
    *(
        _floats,
        _floats,
        _any_magnitude,
        _two_magnitudes,
        _subnormals,
        _neighbours,
        _integers,
        _integers,
        _records,
        _digits,
    ),
    *(_piles, _decimals, _decimals, _codes, _odd_numbers, _constant, _empty, _words, _long_words, _padded, _dates),
    *(_booleans, _mixed),
)


def _damaged(rng: Random, data: bytes) -> bytes:
    """Some bytes changed, put in, left out, or said twice; or the whole in another encoding."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 40))):
        at = rng.randrange(len(out) + 1)
        some = rng.choice(
            (b'"', b"\n", b"\r", b",", b";", b"\0", b"\xff", b"\xef\xbb\xbf", b"9", b"e", b"\x1a", b"NA", b"'", b"-")
        )
        match rng.randrange(4):
            case 0:
                out[at : at + len(some)] = some
            case 1:
                out[at:at] = some
            case 2:
                del out[at : at + rng.choice((1, 2, 30))]
            case _:
                end = at + rng.choice((1, 5, 60))
                out[at:at] = out[at:end]
    match rng.randrange(12):
        case 0:
            return codecs.BOM_UTF16_LE + data.decode().encode("utf-16-le")
        case 1:
            return data.decode().encode("latin-1", "replace")
        case 2:
            return bytes(out[: rng.randrange(len(out) + 1)])
        case 3:
            return codecs.BOM_UTF8 + data
    return bytes(out)


Column = pa.Array


def parquet_case(seed: int) -> Case:
    """A Parquet table. One in five has damaged bytes or damaged notes of pandas."""
    rng = Random(f"parquet {seed}")
    N = rng.choice((1, 2, 3, 5, 9, 20, 20, 35, 60))
    width = rng.choice((1, 2, 2, 3, 3, 4, 5, 7))
    share = rng.choice((0.0, 0.1, 0.2, 0.5, 0.9))
    makers = [rng.choice(PARQUET_COLUMNS) for _ in range(width)]
    if rng.random() < 0.6:
        makers[rng.randrange(width)] = _arrow_floats
    names = _names(rng, width)
    arrow = pa.table([_with_nulls(rng, make(rng, N), share) for make in makers], names=names)
    metadata: dict[bytes, bytes] = {}
    if rng.random() < 0.3:
        metadata[b"pandas"] = _pandas_notes(rng, arrow)
    if rng.random() < 0.1:
        metadata[b"who"] = b"\xff\x00me"
    arrow = arrow.replace_schema_metadata(metadata or None)
    data = parquet(
        arrow,
        row_group_size=rng.choice((1, 2, 7, 1000)),
        use_dictionary=rng.random() < 0.5,
        compression=rng.choice(("none", "snappy", "zstd", "gzip")),
        store_schema=rng.random() < 0.85,
        data_page_size=rng.choice((None, 16)),
    )
    if rng.random() < 0.12:
        data = _damaged_parquet(rng, data)
    blocks = rng.choice((0, 0, 1, 3))
    return Case("t.parquet", data, _fit_flags(rng, names), _impute_flags(rng, "parquet"), blocks=blocks)


def parquet(arrow: pa.Table, **options: Any) -> bytes:
    """The bytes of a file."""
    sink = io.BytesIO()
    pq.write_table(arrow, sink, **options)
    return sink.getvalue()


def _with_nulls(rng: Random, column: Column, share: float) -> Column:
    keep = [None if rng.random() < share else i for i in range(len(column))]
    if pa.types.is_string_view(column.type):  # Arrow cannot take from these
        return pa.array([None if i is None else column[i].as_py() for i in keep], column.type)
    return column if pa.types.is_null(column.type) else column.take(pa.array(keep, pa.int64()))


def _pandas_notes(rng: Random, arrow: pa.Table) -> bytes:
    """What pandas writes beside a table, whole or damaged."""
    described: dict[str, Any] = {
        "index_columns": rng.choice(
            ([], [arrow.column_names[0]], [{"kind": "range", "start": 0, "stop": 9, "step": 1}])
        ),
        "column_indexes": [],
        "columns": [
            {
                "name": n,
                "field_name": n,
                "pandas_type": "int64",
                "numpy_type": rng.choice(("int64", "Int64", "category")),
                "metadata": None,
            }
            for n in arrow.column_names
        ],
        "creator": {"library": "pyarrow", "version": "1"},
        "pandas_version": "2.0",
    }
    odd = (None, 1, "x", [], {}, [[]], {"a": 1}, [None], ["no such column"], [{"a": 1}])
    match rng.randrange(8):
        case 0:
            described[rng.choice(("index_columns", "columns"))] = rng.choice(odd)
        case 1:
            del described[rng.choice(("index_columns", "columns"))]
        case 2:
            return json.dumps(rng.choice(odd)).encode()
        case 3:
            text = bytearray(json.dumps(described).encode())
            for _ in range(rng.choice((1, 3))):
                text[rng.randrange(len(text))] = rng.randrange(256)
            return bytes(text)
        case 4:
            return rng.choice((b"", b"\xff\xfe", b"{", b"nul", b"[" * 100_000))
        case 5:
            described["columns"][0] = rng.choice(odd)
        case 6:
            described["columns"][0][rng.choice(("field_name", "numpy_type", "pandas_type"))] = rng.choice(odd)
    return json.dumps(described).encode()


def _damaged_parquet(rng: Random, data: bytes) -> bytes:
    out = bytearray(data)
    footer = struct.unpack("<I", data[-8:-4])[0]
    first = rng.choice((0, len(out) - 8 - footer, len(out) - 9))
    match rng.randrange(5):
        case 0:
            return bytes(out[: rng.randrange(1, len(out))])
        case 1:
            return bytes(out[rng.randrange(1, len(out)) :])
        case 2:
            out[-8:-4] = struct.pack("<I", rng.choice((0, 1, footer - 1, footer + 1, 2**31, 2**32 - 1)))
        case _:
            for _ in range(rng.choice((1, 1, 3, 20))):
                out[rng.randrange(max(first, 0), len(out))] = rng.randrange(256)
    return bytes(out)


def _arrow_floats(rng: Random, N: int) -> Column:
    places = rng.choice((1, 3, 17))
    return pa.array([round(rng.gauss(0, 1), places) for _ in range(N)], pa.float64())


def _arrow_integers(rng: Random, N: int) -> Column:
    bits, signed = rng.choice((8, 16, 32, 64)), rng.random() < 0.5
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    match rng.randrange(5):
        case 0:
            values = [rng.randint(low, high) for _ in range(N)]
        case 1:
            values = [rng.choice((low, high, low + 1, high - 1)) for _ in range(N)]
        case 2:
            values = [high - rng.randrange(min(high, 1000)) for _ in range(N)]
        case 3:
            values = [low + rng.randrange(min(high, 1000)) for _ in range(N)]
        case _:
            values = [rng.randrange(100) for _ in range(N)]
    return pa.array(values, kind)


def _arrow_small_floats(rng: Random, N: int) -> Column:
    kind = rng.choice((pa.float16(), pa.float32(), pa.float64()))
    dtype = kind.to_pandas_dtype()
    most = float(np.finfo(dtype).max)
    odd = (0.0, -0.0, 1.0, most, -most, float(np.finfo(dtype).smallest_subnormal), math.nan, 0.1, 1e-3)
    pool = [*rng.sample(odd, 4), *(rng.gauss(0, 1) for _ in range(4))]
    if rng.random() < 0.1:
        pool.append(math.inf)
    return pa.array(np.array([rng.choice(pool) for _ in range(N)], dtype), kind)


def _arrow_magnitudes(rng: Random, N: int) -> Column:
    make = rng.choice((_floats, _any_magnitude, _two_magnitudes, _subnormals, _neighbours, _piles))
    return pa.array([float(cell) for cell in make(rng, N)], pa.float64())


DECIMALS = ((3, 1), (1, 0), (1, 1), (5, 5), (9, 2), (18, 0), (18, 18), (19, 3), (38, 0), (38, 10), (38, 30), (38, 38))
WIDE_DECIMALS = ((39, 2), (76, 0), (76, 40), (76, 76))


def _arrow_decimals(rng: Random, N: int) -> Column:
    precision, scale = rng.choice((*DECIMALS, *WIDE_DECIMALS))
    kind = pa.decimal256(precision, scale) if precision > 38 else pa.decimal128(precision, scale)
    digits = rng.choice((precision, precision, max(precision - 2, 1), min(3, precision)))
    if rng.random() < 0.2:
        units = [rng.choice((10**precision - 1, 1 - 10**precision, 0, 1)) for _ in range(N)]
    else:
        units = [rng.choice((1, 1, -1)) * rng.randrange(10**digits) for _ in range(N)]
    return pa.array([Decimal((int(u < 0), tuple(map(int, str(abs(u)))), -scale)) for u in units], kind)


def _arrow_texts(rng: Random, N: int) -> Column:
    numbers = rng.random() < 0.5
    pool = rng.choice(CSV_COLUMNS)(rng, 8) if numbers else ["a", "b", "", "ü", "\0", "x" * 1000]
    values = [rng.choice(pool) for _ in range(N)]
    kind = rng.choice((pa.string(), pa.large_string(), pa.string_view()))
    if rng.random() < 0.5:
        return pa.array(values, pa.string()).dictionary_encode()
    return pa.array(values, kind)


def _arrow_dictionaries(rng: Random, N: int) -> Column:
    kind = rng.choice((pa.int8(), pa.int32(), pa.uint8()))
    values = rng.choice(
        (pa.array([1, 2, 40]), pa.array([0.5, 2.25, 1e300]), pa.array(["1.5", "2", "3"]), pa.array(["a", "b"]))
    )
    index = pa.array([rng.randrange(len(values)) for _ in range(N)], kind)
    return pa.DictionaryArray.from_arrays(index, values, ordered=rng.random() < 0.3)


def _arrow_times(rng: Random, N: int) -> Column:
    unit = rng.choice(("s", "ms", "us", "ns"))
    whole = pa.array([rng.choice((0, 1, -1, 10**9, 2**40)) + rng.randrange(5) for _ in range(N)], pa.int64())
    match rng.randrange(6):
        case 0:
            return whole.cast(pa.timestamp(unit, rng.choice((None, "UTC", "Europe/Berlin", "+07:30"))))
        case 1:
            return whole.cast(pa.duration(unit))
        case 2:
            return pa.array(
                [date(1900 + rng.randrange(200), 2, 28) for _ in range(N)], rng.choice((pa.date32(), pa.date64()))
            )
        case 3:
            return pa.array(
                [time(rng.randrange(24), 1, 2) for _ in range(N)], rng.choice((pa.time32("s"), pa.time64("us")))
            )
        case 4:
            return pa.array(
                [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=rng.randrange(10**5)) for _ in range(N)]
            )
        case _:
            return pa.array([2**62 + rng.randrange(9) for _ in range(N)], pa.int64()).cast(pa.timestamp("ns"))


def _arrow_nested(rng: Random, N: int) -> Column:
    whole = [rng.randrange(9) for _ in range(N)]
    match rng.randrange(7):
        case 0:
            return pa.array([[i] * (i % 3) for i in whole], pa.list_(pa.int64()))
        case 1:
            return pa.array([[float(i)] for i in whole], pa.large_list(pa.float32()))
        case 2:
            return pa.array([[i, i] for i in whole], pa.list_(pa.int8(), 2))
        case 3:
            return pa.array([{"a": i, "b": {"c": str(i)}} for i in whole])
        case 4:
            return pa.array([[(str(i), i)] for i in whole], pa.map_(pa.string(), pa.int64()))
        case 5:
            return pa.array([[{"a": [i, None]}] for i in whole])
        case _:
            return pa.array([[] for _ in whole], pa.list_(pa.null()))


def _arrow_bytes(rng: Random, N: int) -> Column:
    kind = rng.choice((pa.binary(), pa.large_binary(), pa.binary(3)))
    return pa.array([bytes(rng.randrange(256) for _ in range(3)) for _ in range(N)], kind)


def _arrow_booleans(rng: Random, N: int) -> Column:
    return pa.array([rng.random() < 0.5 for _ in range(N)])


def _arrow_nulls(rng: Random, N: int) -> Column:
    return pa.nulls(N)


def _arrow_constants(rng: Random, N: int) -> Column:
    kind = rng.choice((pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.decimal128(3, 1), pa.decimal128(38, 30)))
    value = {pa.uint64(): 2**64 - 1, pa.int8(): -128, pa.decimal128(38, 30): Decimal("99999999.5")}.get(
        kind, Decimal("7.5")
    )
    if pa.types.is_floating(kind):
        value = kind.to_pandas_dtype()(7.1)
    return pa.array([value] * N, kind)


PARQUET_COLUMNS: tuple[Callable[[Random, int], Column], ...] = (
    *(_arrow_floats, _arrow_integers, _arrow_integers, _arrow_integers, _arrow_small_floats, _arrow_magnitudes),
    *(_arrow_decimals, _arrow_decimals, _arrow_texts, _arrow_dictionaries, _arrow_times, _arrow_nested, _arrow_bytes),
    *(_arrow_booleans, _arrow_nulls, _arrow_constants),
)
