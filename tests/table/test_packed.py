"""Tables in xz files and zip archives: they are read, and never written."""

from __future__ import annotations

import io
import lzma
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from vgi_cli.errors import InputError, TooLarge
from vgi_cli.table import inputs
from vgi_cli.table.inputs import stem_of
from vgi_cli.table.reader import read_table

TEXT = "a,b\n1,2\n3,\n"


def archive(files: Mapping[str, str | bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in files.items():
            made.writestr(name, text)
    return data.getvalue()


def save(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "data", "stem"),
    [
        ("big.zip", archive({"inside.csv": TEXT}), ("big", ".csv")),
        ("big.csv.zip", archive({"folder/": "", "folder/t.csv": TEXT}), ("big", ".csv")),
        ("BIG.ZIP", archive({"t.csv": TEXT, "__MACOSX/._t.csv": "x", ".DS_Store": "x"}), ("BIG", ".csv")),
        ("tabs.zip", archive({"t.tsv": TEXT.replace(",", "\t")}), ("tabs", ".csv")),
        ("t.tsv.zip", archive({"t.tsv": TEXT.replace(",", "\t")}), ("t", ".tsv")),
        ("t.csv.xz", lzma.compress(TEXT.encode()), ("t", ".csv")),
        ("t.tsv.xz", lzma.compress(TEXT.replace(",", "\t").encode()), ("t", ".tsv")),
    ],
    ids=lambda value: "bytes" if isinstance(value, bytes) else None,
)
def test_one_table_is_read(tmp_path: Path, name: str, data: bytes, stem: tuple[str, str]) -> None:
    path = save(tmp_path / name, data)
    table = read_table([path])
    assert table.names == ("a", "b") and table.missing("b").tolist() == [False, True]
    assert table.label == name and stem_of(path) == stem
    if not name.startswith("t"):
        assert table.sha256 == read_table([save(tmp_path / "plain.csv", TEXT.encode())]).sha256


def test_a_delimiter_that_was_said_holds_inside(tmp_path: Path) -> None:
    path = save(tmp_path / "t.zip", archive({"t.csv": TEXT.replace(",", ";")}))
    assert read_table([path], delimiter=";").names == ("a", "b")


def encrypted() -> bytes:
    data = bytearray(archive({"t.csv": TEXT}))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + place] |= 1
    return bytes(data)


def damaged(data: bytes) -> bytes:
    middle = data.index(b"t.csv") + 8 if b"t.csv" in data else len(data) // 2
    return data[:middle] + bytes(byte ^ 0x55 for byte in data[middle : middle + 4]) + data[middle + 4 :]


@pytest.mark.parametrize(
    ("name", "data", "message", "hint"),
    [
        ("t.zip", archive({"folder/": ""}), "the zip archive holds no table", "expected one file of CSV in it"),
        (
            "t.zip",
            archive({f"{one}.csv": TEXT for one in "abcde"}),
            "the zip archive holds 5 files: 'a.csv', 'b.csv', 'c.csv' and 2 more",
            "unpack it, and name the table",
        ),
        ("t.zip", archive({"t.parquet": b"PAR1rest"}), "'t.parquet' in it is a Parquet file", "unpack it"),
        ("t.zip", archive({"t.csv": archive({"t.csv": TEXT})}), "'t.csv' in it is a zip archive or a spr", "unpack it"),
        ("t.zip", archive({"t.csv": ""}), "the file in it is empty", "expected a header, then rows"),
        ("t.csv.xz", lzma.compress(b""), "the file in it is empty", "expected a header, then rows"),
        ("t.zip", encrypted(), "'t.csv' in it is encrypted", "unpack it, and name that file"),
        ("t.zip", TEXT.encode(), "damaged zip file", "pack it again"),
        ("t.zip", damaged(archive({"t.csv": TEXT * 99})), "damaged zip file", "pack it again"),
        ("t.csv.xz", TEXT.encode(), "damaged xz file", "pack it again"),
        ("t.csv.xz", lzma.compress(TEXT.encode() * 99)[:-9], "damaged xz file", "pack it again"),
    ],
    ids=lambda value: "bytes" if isinstance(value, bytes) else None,
)
def test_what_holds_no_table_is_refused(tmp_path: Path, name: str, data: bytes, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        read_table([save(tmp_path / name, data)])
    assert caught.value.message.startswith(f"{name}: {message}")
    assert str(caught.value.hint).startswith(hint)


@pytest.mark.parametrize("name", ["t.zip", "t.csv.xz"])
def test_what_expands_without_end_is_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a,b\n" + "1,2\n" * 400_000
    path = save(tmp_path / name, archive({"t.csv": text}) if name == "t.zip" else lzma.compress(text.encode()))
    monkeypatch.setattr(inputs, "FREE_EXPANSION", 1 << 19)
    with pytest.raises(TooLarge, match=f"{name}: its .* bytes expand to more than"):
        read_table([path])
