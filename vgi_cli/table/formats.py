"""Files of other programs, told by what they begin with: what they are, and how they become a table that is read."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import NamedTuple

from vgi_cli.errors import InputError

LOOKED_AT = 4096
"""First bytes of a file that tell what it is."""
STRING = rb'"(?:[^"\\]|\\.)*"'


class _Format(NamedTuple):
    """A type of file.

    what   its name in a message
    begin  what it begins with
    code   Python that writes it as Parquet, with FILE and OUT for its name and that of the output; or in other words
           what helps
    needs  the package without which pandas does not read it, or what else is to be known
    gzip   whether that code reads such a file compressed by gzip as well
    """

    what: str
    begin: re.Pattern[bytes]
    code: str
    needs: str = ""
    gzip: bool = False


def _begins(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.DOTALL)


def _pandas(call: str) -> str:
    return f"import pandas as p; p.{call}.to_parquet('OUT')"


_R = "in R: `write.csv({}, 'OUT.csv', row.names=FALSE, na='')`"
FORMATS = (
    _Format(
        "JSON with an object on each line",
        _begins(rb"\s*\{(?:\s*" + STRING + rb"\s*:[^\r\n]*)?\}[ \t]*\r?\n\s*\{"),
        _pandas("read_json('FILE', lines=True, dtype=False)"),
        gzip=True,
    ),
    _Format(
        "JSON",
        _begins(rb"\s*\{\s*" + STRING + rb"\s*:"),
        _pandas("read_json('FILE', dtype=False)"),
        "with lines=True if each line is an object",
        True,
    ),
    _Format(
        "JSON",
        _begins(rb"\s*\[\s*\{\s*" + STRING + rb"\s*:"),
        _pandas("read_json('FILE', dtype=False)"),
        gzip=True,
    ),
    _Format("a Feather file (Arrow)", _begins(rb"ARROW1\0\0|FEA1(?=.*[\0-\x08])"), _pandas("read_feather('FILE')")),
    _Format(
        "an Arrow stream",
        _begins(rb"\xff\xff\xff\xff"),
        "import pyarrow as a, pyarrow.parquet as q; q.write_table(a.ipc.open_stream('FILE').read_all(), 'OUT')",
    ),
    _Format("an ORC file", _begins(rb"ORC(?=.*[\0-\x08])"), _pandas("read_orc('FILE')")),
    _Format(
        "a Stata file",
        _begins(rb"<stata_dta>|[\x66-\x73][\x01\x02]\x01\0"),
        _pandas("read_stata('FILE')"),
    ),
    _Format("an SPSS file", _begins(rb"\$FL[23]@\(#\)"), _pandas("read_spss('FILE')"), "needs pyreadstat"),
    _Format(
        "a SAS file",
        _begins(rb"\0{12}\xc2\xea\x81\x60"),
        _pandas("read_sas('FILE', format='sas7bdat', encoding='infer')"),
    ),
    _Format(
        "a SAS transport file",
        _begins(rb"HEADER RECORD\*{7}"),
        _pandas("read_sas('FILE', format='xport', encoding='infer')"),
    ),
    _Format(
        "a pickle of Python",
        _begins(rb"\x80[\x02-\x05]"),
        _pandas("read_pickle('FILE')"),
        "runs what the file says: only if you trust where it comes from",
    ),
    _Format(
        "an R file (saveRDS)",
        _begins(rb"X\n\0\0\0[\x02\x03]"),
        _R.format("readRDS('FILE')"),
        gzip=True,
    ),
    _Format("an R file (save)", _begins(rb"RD[AX][23]\n"), _R.format("get(load('FILE'))"), gzip=True),
    _Format(
        "a spreadsheet (OpenDocument)",
        _begins(rb"PK\x03\x04.{26}mimetypeapplication/vnd\.oasis\.opendocument\.spreadsheet"),
        _pandas("read_excel('FILE', engine='odf')"),
        "needs odfpy",
    ),
    _Format(
        "an old Excel file (.xls)",
        _begins(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        _pandas("read_excel('FILE', engine='xlrd')"),
        "needs xlrd",
    ),
    _Format(
        "an HDF5 file",
        _begins(rb"\x89HDF\r\n\x1a\n"),
        _pandas("read_hdf('FILE')"),
        "needs tables, and a file that pandas wrote; else h5py reads its arrays",
    ),
    _Format(
        "an array of NumPy",
        _begins(rb"\x93NUMPY"),
        "import numpy, pandas as p; p.DataFrame(numpy.load('FILE')).add_prefix('x').to_parquet('OUT')",
    ),
)
"""The first that a file begins like is meant."""


def refuse_formats(begin: bytes, label: str, path: str | None = None, packed: bool = False) -> None:
    """InputError where a file begins as those of another program do.

    begin   its first bytes, LOOKED_AT of them where there are so many, decompressed
    label   its name, for messages
    path    where it lies; None where that is no file here
    packed  whether it is compressed there
    """
    begin = begin.removeprefix(b"\xef\xbb\xbf")
    for format in FORMATS:
        if format.begin.match(begin) is not None:
            hint = _hint(format, None if packed and not format.gzip else path)
            raise InputError(f"{label}: {format.what}, not CSV or Parquet", hint)


def _hint(format: _Format, path: str | None) -> str:
    """How to convert a file, as it is typed into a shell."""
    simple = path is not None and re.fullmatch(r"[^'\"\\$`!\r\n]+", path) is not None
    file = path if simple and path is not None else "FILE"
    stem = PurePath(file.removesuffix(".gz")).stem
    if format.code.startswith("in R"):
        return f"convert it, {_named(format.code, file, stem)}"
    code = _named(format.code, file, f"{stem}.parquet")
    needs = f" ({format.needs})" if format.needs else ""
    return f'convert it: `python -c "{code}"`{needs}'


def _named(code: str, file: str, out: str) -> str:
    return re.sub("FILE|OUT", lambda found: file if found[0] == "FILE" else out, code)
