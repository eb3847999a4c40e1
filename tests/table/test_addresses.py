"""Tables at `s3://` addresses (a server of the package moto on this machine), and what is said of addresses that cannot
be read. Nothing else opens a socket."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.test_refusals import refused
from tests.program import Vgi, vgi
from vgi_cli.errors import InputError
from vgi_cli.table import inputs
from vgi_cli.table.addresses import Found, Section, is_address, name_of, require_address
from vgi_cli.table.inputs import find_files, rough_size, stem_of

__all__ = ["vgi"]

TEXT = "a,b\n" + "".join(f"{i / 8},{'' if i % 3 else i}\n" for i in range(30))
FIT = ("--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none", "-q", "--threads", "1")


def test_names_of_addresses() -> None:
    assert is_address("s3://bucket/a.csv") and is_address("http://x") and not is_address("a.csv")
    assert not is_address("C:/a.csv") and not is_address(Path("s3://bucket/a.csv"))
    assert name_of("s3://bucket/a/b.csv.gz?scheme=http") == Path("b.csv.gz")
    assert stem_of("s3://bucket/a/b.csv.gz?scheme=http") == ("b", ".csv.gz")
    assert stem_of("gs://bucket/rows/") == ("rows", ".parquet") and stem_of("s3://bucket") == ("bucket", ".parquet")


@pytest.mark.parametrize(
    ("address", "error", "hint"),
    [
        (
            "http://host/a.csv",
            "http://…: addresses of s3, gs, gcs and hdfs are read, not of http",
            "copy the file here",
        ),
        (
            "s3://me:secret@bucket/a.csv",
            "s3://…: the address holds credentials, which the run would keep",
            "AWS_ACCESS",
        ),
        (
            "gs://bucket/a.csv?scheme=http&endpoint%5Foverride=127.0.0.1:9",
            "gs://…: the address names a server of its own, which would be sent an access token of yours",
            "gs://anonymous@BUCKET/… asks that server without one",
        ),
        ("gcs://me@bucket/a.csv?endpoint_override=h", "gcs://…: the address names a server of its own", "anonymous@"),
        ("s3://bucket/a.csv?access_key=secret", "s3://…: the address holds credentials", "AWS_ACCESS_KEY_ID"),
    ],
)
def test_addresses_that_are_not_asked(vgi: Vgi, address: str, error: str, hint: str) -> None:
    with pytest.raises(InputError) as found:
        require_address(address)
    assert error in found.value.message and hint in str(found.value.hint)
    for words in (("fit", address), ("check", address), ("hide", address, "-o", "trial")):
        said = refused(vgi, *words)
        assert error in said[0] and "secret" not in "".join(said)


def test_a_server_of_googles_kind_may_be_asked_without_credentials() -> None:
    asked = "bucket/a.csv?scheme=http&endpoint_override=127.0.0.1:9"
    require_address(f"gs://anonymous@{asked}")
    with pytest.raises(InputError, match="names a server of its own"):
        require_address(f"gs://{asked}")
    require_address("gs://bucket/a.csv?project_id=p")


def test_results_are_local_files(vgi: Vgi) -> None:
    Path("data.csv").write_text(TEXT)
    error, hint = refused(vgi, "fit", "data.csv", "--out", "s3://bucket/run")
    assert error == "--out: 's3://bucket/run' is an address; results are written to local files"
    assert hint == "name a local one, and copy it there"


def test_stores_that_cannot_be_asked_are_input_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import fs

    for text, hint in (
        ("AWS Error ACCESS_DENIED during HeadObject operation", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("AWS Error NETWORK_CONNECTION during HeadBucket", "check the address and the network; AWS_ACCESS_KEY_ID"),
    ):

        class Store:
            text = ""

            @classmethod
            def from_uri(cls, address: str) -> object:
                raise OSError(cls.text)

        Store.text = text
        monkeypatch.setattr(fs, "FileSystem", Store)
        with pytest.raises(InputError) as found:
            find_files(["s3://bucket/a.csv"], None)
        assert found.value.message == f"s3://bucket/a.csv: cannot be read ({text})"
        assert str(found.value.hint).startswith(hint)


def test_the_size_of_a_table_counts_files_that_are_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import fs

    (tmp_path / "here.csv").write_bytes(b"x" * 10)
    (tmp_path / "far.csv").write_bytes(b"x" * 500)
    monkeypatch.setattr(inputs, "look", lambda address: [Found(fs.LocalFileSystem(), str(tmp_path / "far.csv"), None)])
    assert rough_size([str(tmp_path / "here.csv"), "s3://bucket/far.csv", "none.csv"]) == 510


def test_sections_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(range(100)))
    with open(tmp_path / "x", "rb") as file:
        section = Section(file, 10, 20)
        first, second = section.again(), section.again()
        assert first.read(5) == bytes(range(10, 15)) and second.read() == bytes(range(10, 30))
        assert first.seek(-1, 2) == 19 and first.read(9) == bytes([29]) and first.read() == b""


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket of a server on this machine, with a CSV file, a compressed one and a folder of Parquet."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    from pyarrow import fs

    system = fs.S3FileSystem(endpoint_override=f"{host}:{port}", scheme="http", allow_bucket_creation=True)
    system.create_dir("bucket")
    for name, content in (
        ("rows.csv", TEXT.encode()),
        ("rows.csv.gz", gzip.compress(TEXT.encode(), mtime=0)),
        ("none.csv", b""),
    ):
        with system.open_output_stream(f"bucket/{name}", compression=None) as file:
            file.write(content)
    for year in (2020, 2021):
        rows = pa.table({"a": [0.5, None, year - 2019.0] * 5, "b": [1, 2, None] * 5})
        pq.write_table(rows, f"bucket/folder/year={year}/part.parquet", filesystem=system)
    yield f"endpoint_override={host}%3A{port}&scheme=http"
    server.stop()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_store_is_read_by_every_command(vgi: Vgi, store: str) -> None:
    Path("rows.csv").write_text(TEXT)
    assert vgi("fit", "rows.csv", *FIT, "--out", "local").code == 0
    done = vgi("fit", f"s3://bucket/rows.csv?{store}", *FIT, "--out", "run")
    assert done.code == 0, done.err
    assert vgi("impute", "--checkpoint", "local", "--m", "1", "-o", "one.csv").code == 0
    for table in ([], [f"s3://bucket/rows.csv?{store}"], [f"s3://bucket/rows.csv.gz?{store}"]):  # [] is the fitted one
        done = vgi("impute", "--checkpoint", "run", *table, "--m", "1", "-o", "two.csv", "--force")
        assert done.code == 0, done.err
        assert Path("two.1.csv").read_bytes() == Path("one.1.csv").read_bytes()
    folder = f"s3://bucket/folder?{store}"
    done = vgi("fit", folder, *FIT, "--out", "parts")
    assert done.code == 0, done.err
    for words in (
        ("impute", "--checkpoint", "parts", "--m", "1"),
        ("impute", "--checkpoint", "parts", folder, "--m", "1", "--shard", "2/3"),
        ("evaluate", "--checkpoint", "parts", folder, "--json"),
        ("score", "parts", folder),
        ("finetune", "--checkpoint", "parts", folder, "--epochs", "1", "--out", "tuned"),
        ("check", folder, "--no-trial", "--json"),
        ("hide", folder, "-o", "trial"),
    ):
        done = vgi(*words)
        assert done.code == 0 or "does not" in done.err or "no conditionals" in done.err, (words, done.err)
    filled = pq.read_table("parts/imputed/folder.1.parquet")
    assert filled.column_names == ["a", "b", "year"] and filled["year"].to_pylist() == [2020] * 15 + [2021] * 15
    for address, error in (
        (f"s3://bucket/nothing.csv?{store}", "no such file or folder"),
        (f"s3://bucket/none.csv?{store}", "none.csv: the file is empty"),
        (f"s3://nowhere/rows.csv?{store}", "no such file or folder"),
    ):
        assert error in refused(vgi, "fit", address)[0]
