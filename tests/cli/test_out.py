"""`vgi fit --out`: whether the folder can be made is known before the fit, and nobody else's is taken after it."""

from __future__ import annotations

import errno
import os
import shutil
import zipfile
from pathlib import Path

import pytest

import vgi_cli
from tests.program import Vgi
from tests.selection import first
from vgi_cli.commands import fit as fit_command
from vgi_cli.errors import Unwritten
from vgi_cli.runs import files
from vgi_cli.runs.folder import Claim


def test_a_fit_into_a_folder_that_cannot_be_made_computes_nothing(vgi: Vgi) -> None:
    Path("data.csv").write_text("a,b\n1,2\n3,\n4,5\n")
    Path("file").write_text("")
    done = vgi("fit", "data.csv", "--out", "file/run")
    assert (done.code, done.error) == (2, "cannot create 'file/run': Not a directory") and "model" not in done.err
    assert done.hint == "choose another folder with --out"


@pytest.mark.parametrize(
    ("number", "remedy"),
    first(1, [(errno.ENOSPC, "make room"), (errno.EFBIG, "raise the limit on the size of files (ulimit -f)")]),
)
def test_a_disk_that_is_full_after_training_loses_no_work(
    vgi: Vgi, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    Path("data.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)))
    real = files.write_synced

    def full(path: Path, data: bytes) -> None:
        if b'"finished"' in data:
            raise OSError(number, os.strerror(number))
        real(path, data)

    with monkeypatch.context() as patched:
        patched.setattr("vgi_cli.runs.folder.write_synced", full)
        done = vgi("fit", "data.csv", "--model", "fa", "--out", "the run")
    kept = f"cannot write in 'the run': {os.strerror(number)}; the last good checkpoint is kept"
    assert (done.code, done.out, done.error) == (1, "", kept)
    assert done.hint == f"{remedy}, then: vgi fit --resume --out 'the run'"
    assert vgi("fit", "--resume", "--out", "the run").out == "the run\n"


def test_a_disk_that_is_full_from_the_start_is_named(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("data.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("vgi_cli.runs.folder.write_synced", full)
    done = vgi("fit", "data.csv", "--model", "fa", "--out", "run")
    assert (done.code, done.error) == (1, "'run': No space left on device")


def test_force_through_a_link_replaces_the_run_and_keeps_the_link(vgi: Vgi) -> None:
    Path("data.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)))
    words = ("fit", "data.csv", "--model", "fa", "--set", "bootstrap=none")
    Path("disk").mkdir()
    assert vgi(*words, "--out", "disk/real").code == 0
    before = Path("disk/real/manifest.json").read_bytes()
    Path("link").symlink_to("disk/real")
    done = vgi(*words, "--seed", "1", "--out", "link", "--force")
    assert (done.code, done.out) == (0, "link\n")
    assert Path("link").is_symlink() and Path("disk/real/manifest.json").read_bytes() != before
    assert [path.name for path in Path("disk").iterdir()] == ["real"]
    assert sorted(path.name for path in Path().iterdir()) == ["data.csv", "disk", "link"]


def test_a_name_that_was_taken_while_a_fit_ran_costs_no_work(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("data.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)))
    real = fit_command.claim_or_beside

    def late(out: Path | None, force: bool) -> Claim:
        for taken in ("run", "run-2"):
            Path(taken).mkdir()
            Path(taken, "manifest.json").write_text("{}")
        return real(out, force)

    with monkeypatch.context() as patched:
        patched.setattr(fit_command, "claim_or_beside", late)
        done = vgi("fit", "data.csv", "--model", "fa", "--set", "bootstrap=none", "--out", "run")
    assert (done.code, done.out) == (0, "run-3\n")
    assert "another command has taken 'run' meanwhile: this run is 'run-3'" in done.err
    done = vgi("fit", "data.csv", "--model", "fa", "--out", "run")
    assert (done.code, done.error) == (2, "--out: 'run' exists")
    assert Path("run", "manifest.json").read_text() == "{}"


def refusing(patched: pytest.MonkeyPatch, name: str) -> None:
    """Let the disk be full for files of a name."""
    real = files.write_synced

    def full(path: Path, data: bytes) -> None:
        if name in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, data)

    patched.setattr(files, "write_synced", full)


@pytest.mark.parametrize(
    ("name", "file", "left"),
    [
        ("report.json", "run/evaluations/data/report.json", ["report.md", "rows.csv"]),
        pytest.param(
            "report.md", "run/evaluations/data/report.md", ["report.json", "rows.csv"], marks=pytest.mark.slow
        ),
        ("rows.csv", "rows.csv", ["report.json", "report.md"]),
    ],
)
def test_a_disk_that_is_full_after_an_evaluation_loses_no_figures(
    vgi: Vgi, name: str, file: str, left: list[str]
) -> None:
    Path("data.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)))
    assert vgi("fit", "data.csv", "--model", "fa", "--out", "run").code == 0
    words = ("evaluate", "--checkpoint", "run", "data.csv", "--per-row", "rows.csv")
    whole = vgi(*words)
    assert whole.code == 0 and "| all | 30 |" in whole.out
    shutil.rmtree("run/evaluations")
    Path("rows.csv").unlink()
    with pytest.MonkeyPatch.context() as patched:
        refusing(patched, name)
        done = vgi(*words)
    assert (done.code, done.out) == (1, whole.out)
    assert done.error == f"cannot write '{file}': No space left on device"
    assert done.hint == "make room, or write elsewhere with -o; the report itself is whole"
    assert sorted(path.name for path in [*Path("run/evaluations/data").iterdir(), *Path().glob("rows.csv")]) == left
    assert ("report.md are in" in done.err) == (name == "rows.csv")


def test_a_folder_for_a_report_that_cannot_be_made_loses_no_figures(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("data.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)))
    run = vgi_cli.fit("data.csv", model="fa", out="run")
    report = run.evaluate("data.csv")

    def full(path: Path, **_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(Unwritten, match="cannot write 'there': No space") as caught:
        run.evaluate("data.csv", out="there")
    assert caught.value.report == report and caught.value.exit_code == 1


def test_fills_of_a_table_in_a_zip_archive_are_written_as_csv(vgi: Vgi) -> None:
    rows = "".join(f"{i},{'' if i % 7 == 3 else i * i % 11}\n" for i in range(40))
    with zipfile.ZipFile("data.zip", "w") as made:
        made.writestr("inside.csv", f"a,b\n{rows}")
    assert vgi("fit", "data.zip", "--model", "fa", "--out", "run", "--set", "bootstrap=none").code == 0
    done = vgi("impute", "--checkpoint", "run", "--m", "1")
    assert done.out == "run/imputed/data.1.csv\n"
    assert Path("run/imputed/data.1.csv").read_text().startswith("a,b\n0,0\n1,1\n")


def test_filled_tables_go_into_a_folder(vgi: Vgi) -> None:
    Path("data.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7 or 'NA'}\n" for i in range(30)))
    vgi("fit", "data.csv", "--model", "fa", "--set", "bootstrap=none", "--out", "run")
    words = ("impute", "--checkpoint", "run", "-o")
    Path("there").mkdir()
    assert vgi(*words, "there", "--m", "2").out == "there/data.1.csv\nthere/data.2.csv\n"
    assert vgi(*words, "new/deep/", "--m", "1").out == "new/deep/data.1.csv\n"
    assert Path("new/deep/data.1.csv").read_bytes() == Path("there/data.1.csv").read_bytes()
    assert vgi(*words, "there", "--format", "single").out == "there/data.csv\n"
    assert vgi(*words, "new/", "--format", "mids-csv", "--m", "2").out == "new/data.mids.csv\n"
    assert vgi(*words, "other", "--m", "1").out == "other.1.csv\n"  # no folder: the name of a file
    assert sorted(path.name for path in Path().iterdir()) == ["data.csv", "new", "other.1.csv", "run", "there"]
    for more in ([], ["--dry-run"]):
        done = vgi(*words, "there", "--m", "2", *more)
        assert (done.code, done.error) == (2, "there/data.1.csv exists")
    done = vgi(*words, ".", "--format", "single")
    assert (done.code, done.error) == (2, "data.csv is the table that is imputed")
    assert "there/data.1.csv" in vgi(*words, "there", "--m", "2", "--force", "--dry-run").out
    assert vgi_cli.impute("run", out="there", m=3, force=True)[2] == Path("there/data.3.csv")
