"""Run folders: claiming, atomic checkpoints, refusals of what is damaged, newer or no run."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from tests.fitting.fakes import new_run
from tests.tensors import same_tensors
from vgi_cli.errors import FitError, RunError, UsageError
from vgi_cli.fitting.plan import find_run
from vgi_cli.runs import files as checkpoint
from vgi_cli.runs import folder as directory
from vgi_cli.runs.files import COMMITTED, PENDING, barrier, commit, finish_commit, write_atomic, write_synced
from vgi_cli.runs.folder import RunFolder, beside, check_free, check_writable, claim, set_aside
from vgi_cli.runs.lock import sole_writer
from vgi_cli.runs.tensors import read_tensors

MODEL = {"model": {"mean": torch.arange(3.0)}}


def saved(path: Path) -> RunFolder:
    run = new_run(path)
    run.save(MODEL, {"stopped_by": "epochs"})
    return run


def files(path: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}


def test_without_a_name_the_next_free_number_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run2").mkdir()
    names = [claim(None).path.name for _ in range(3)]
    assert names == ["run1", "run3", "run4"]


def test_two_claims_at_once_get_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    claimed: list[str] = []
    threads = [threading.Thread(target=lambda: claimed.append(claim(None).path.name)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(claimed)) == 16


def test_an_existing_run_is_kept_without_force(tmp_path: Path) -> None:
    saved(tmp_path / "run")
    before = files(tmp_path / "run")
    for call in (lambda: check_free(tmp_path / "run", False), lambda: claim(tmp_path / "run")):
        with pytest.raises(UsageError, match=r"--out: '.*run' exists") as caught:
            call()
        assert caught.value.hint == "--force replaces it, --resume continues it"
    assert files(tmp_path / "run") == before


def test_a_file_or_a_folder_of_something_else_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="exists and is a file"):
        check_free(tmp_path / "file", True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="exists and is not a run, so --force does not replace it"):
        claim(tmp_path / "other", force=True)
    with pytest.raises(UsageError, match=r"exists and is not a run$") as caught:
        claim(tmp_path / "other")
    assert caught.value.hint == "choose a new name"


def test_an_empty_folder_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(UsageError), claim(tmp_path / "run").undone_if_empty():
        raise UsageError("no")
    assert (tmp_path / "run").is_dir()


@pytest.mark.parametrize("error", [FitError("diverged"), RuntimeError("out of memory"), OSError(28, "no space")])
def test_force_keeps_the_old_run_until_a_model_is_there(tmp_path: Path, error: Exception) -> None:
    saved(tmp_path / "run")
    before = files(tmp_path / "run")
    claimed = claim(tmp_path / "run", force=True)
    assert files(tmp_path / "run") == {}
    with pytest.raises(type(error)), claimed.undone_if_empty():
        raise error
    assert files(tmp_path / "run") == before
    claimed = claim(tmp_path / "run", force=True)
    RunFolder(tmp_path / "run", {"format": 1, "metrics_bytes": 0}).save(MODEL, {})
    with pytest.raises(type(error)), claimed.undone_if_empty():
        raise error
    assert "recipe.yaml" not in files(tmp_path / "run")
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_force_does_not_take_a_run_from_under_its_writer(tmp_path: Path) -> None:
    saved(tmp_path / "run")
    before = files(tmp_path / "run")
    with sole_writer(tmp_path / "run"), pytest.raises(UsageError, match=r"is being written by process \d+ on host"):
        claim(tmp_path / "run", force=True)
    assert files(tmp_path / "run") == before
    assert claim(tmp_path / "run", force=True).path == tmp_path / "run"


def test_a_refused_fit_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError), claim(tmp_path / "a" / "run").undone_if_empty():
        raise UsageError("no")
    assert not (tmp_path / "a" / "run").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o500)
    with pytest.raises(RunError, match="cannot create"):
        claim(None)


def test_whether_a_folder_can_be_made_is_found_before_a_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot create '.*run': Not a directory"):
        check_writable(tmp_path / "file" / "run")
    check_writable(tmp_path / "a" / "b" / "run")
    check_writable(tmp_path)
    check_writable(None)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    with pytest.raises(RunError, match=r"cannot create '.*run': Permission denied"):
        check_writable(tmp_path / "a" / "run")


def test_a_read_only_disk_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert barrier(tmp_path / "a") == (tmp_path, "Permission denied")
    monkeypatch.setattr("os.statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert barrier(tmp_path / "a") == (tmp_path, "Read-only file system")


def test_a_folder_below_a_file_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot create '.*run': Not a directory"):
        claim(tmp_path / "file" / "run")


@pytest.mark.parametrize("moved", range(4))
def test_a_commit_that_was_cut_off_is_finished_by_whoever_opens_the_run(tmp_path: Path, moved: int) -> None:
    run = saved(tmp_path / "run")
    old = files(run.path)
    new = {"a": b"1", "b": b"2", "manifest.json": b"{}"}
    committed = run.path / COMMITTED
    committed.mkdir()
    for name, data in new.items():
        (committed / name).write_bytes(data)
    for name in list(new)[:moved]:
        os.replace(committed / name, run.path / name)
    finish_commit(run.path)
    assert files(run.path) == {**old, **new}
    assert not committed.exists()


def test_a_move_that_another_process_finishes_first_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are a reader that takes the folder away before it is listed, and a writer that commits once more."""
    run = saved(tmp_path / "run")
    committed = run.path / COMMITTED
    listed, removed = Path.iterdir, Path.rmdir

    def gone(path: Path) -> object:
        removed(path)
        return listed(path)

    def again(path: Path) -> None:
        (path / "next").write_bytes(b"2")
        removed(path)

    for name, stand_in in (("iterdir", gone), ("rmdir", again)):
        committed.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(Path, name, stand_in)
            finish_commit(run.path)
    assert (committed / "next").read_bytes() == b"2"
    finish_commit(run.path)
    assert not committed.exists() and (run.path / "next").read_bytes() == b"2"


def test_what_was_not_committed_is_as_if_it_had_never_been(tmp_path: Path) -> None:
    run = saved(tmp_path / "run")
    before = files(run.path)
    (run.path / PENDING).mkdir()
    (run.path / PENDING / "model.safetensors").write_bytes(b"half")
    RunFolder.open(run.path)
    assert files(run.path) == before
    commit(run.path, lambda folder: write_synced(folder / "x", b"1"))
    assert files(run.path) == {**before, "x": b"1"}
    assert not (run.path / PENDING).exists()


def test_a_folder_that_cannot_be_written_is_read_from_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = saved(tmp_path / "run")
    whole = files(run.path)
    committed = run.path / COMMITTED
    committed.mkdir()
    for name in ("model.safetensors", "manifest.json"):
        shutil.move(run.path / name, committed / name)

    def readonly(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(checkpoint.os, "replace", readonly)
    opened = RunFolder.open(run.path)
    assert same_tensors(opened.tensors("model"), MODEL["model"])
    monkeypatch.undo()
    RunFolder.open(run.path)
    assert files(run.path) == whole


def refused(path: Path) -> RunError:
    with pytest.raises(RunError) as caught:
        RunFolder.open(path)
    assert caught.value.exit_code == 2
    return caught.value


def test_no_run_at_all(tmp_path: Path) -> None:
    assert refused(tmp_path / "none").message.startswith("no run at")
    assert refused(tmp_path).message.endswith("is not a run: it has no manifest.json")
    (tmp_path / "file").write_text("")
    assert refused(tmp_path / "file").message.endswith("is a file, not a run folder")


@pytest.mark.parametrize("name", ["model.safetensors", "recipe.yaml", "schema.json"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    run = saved(tmp_path / "run")
    data = (run.path / name).read_bytes()
    (run.path / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert f"is damaged: {name} does not match its SHA-256" in refused(run.path).message
    (run.path / name).unlink()
    assert f"is damaged: {name} is missing" in refused(run.path).message


def test_a_run_without_a_model(tmp_path: Path) -> None:
    run = RunFolder.open(new_run(tmp_path / "run").path)
    with pytest.raises(RunError, match="holds no model yet") as caught:
        run.require_model()
    assert caught.value.hint == f"continue it with: vgi fit --resume --out {run.path}"
    with sole_writer(run.path), pytest.raises(RunError, match="holds no model yet") as caught:
        run.require_model()
    assert (
        caught.value.hint
        == f"process {os.getpid()} on host '{socket.gethostname()}' fits it: wait for its first checkpoint"
    )


def test_lines_logged_after_the_checkpoint_are_dropped_and_not_hashed(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    metrics = run.path / directory.METRICS
    metrics.write_text("one\n")
    run.save(MODEL, {"metrics_bytes": 4})
    metrics.write_text("one\ntwo\nthr")
    opened = RunFolder.open(run.path)
    opened.truncate_metrics()
    assert metrics.read_text() == "one\n"
    metrics.write_text("oni\n")
    assert "metrics.jsonl does not match" in refused(run.path).message


def test_the_last_value_of_every_metric(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    metrics = run.path / directory.METRICS
    metrics.write_text("")
    assert run.last_metrics() == {}
    metrics.write_text('{"epoch": 1, "strain": 3.0}\n{"epoch": 2}\n')
    assert run.last_metrics() == {"epoch": 2, "strain": 3.0}


def test_a_file_that_is_not_safetensors(tmp_path: Path) -> None:
    run = saved(tmp_path / "run")
    (run.path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(RunError, match=r"model.safetensors: damaged"):
        RunFolder.open(run.path, verify=False).tensors("model")


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old")
    monkeypatch.setattr("vgi_cli.runs.files.os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        write_atomic(path, b"new")
    assert files(tmp_path) == {"file": b"old"}


def test_a_reader_meets_a_whole_checkpoint_while_others_are_written(tmp_path: Path) -> None:
    run = saved(tmp_path / "run")
    done = threading.Event()

    def write() -> None:
        for number in range(60):
            run.save({"model": {"mean": torch.full((3,), float(number))}}, {"number": number})
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    opened = 0
    while not done.is_set():
        RunFolder.open(run.path)
        opened += 1
    writer.join()
    assert opened > 3


def test_a_commit_that_is_moved_into_place_between_two_looks_is_read_at_the_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look into the commit finds that another process has just emptied it."""
    run = saved(tmp_path / "run")
    expected = run.tensors("model")
    (run.path / COMMITTED).mkdir()
    for name in ("manifest.json", "model.safetensors"):
        (run.path / name).rename(run.path / COMMITTED / name)
    looked: list[str] = []

    def moved(read: Callable[[Path], object]) -> Callable[[Path], object]:
        def look(file: Path) -> object:
            looked.append(file.parent.name)
            if file.exists() and file.parent.name == COMMITTED:
                file.rename(run.path / file.name)
            return read(file)

        return look

    plain = directory.wherever
    monkeypatch.setattr(directory, "wherever", lambda path, name, read: plain(path, name, moved(read)))
    assert RunFolder(run.path, {}).tensors("model").keys() == expected.keys()
    assert directory._read_manifest(run.path) == run.manifest
    assert looked == [COMMITTED, "run"] * 2
    assert run.tensors("conditionals") == {}


def left_by_a_kill(path: Path) -> Path:
    """What a fit leaves that is killed while it writes its first checkpoint."""
    (path / PENDING).mkdir(parents=True)
    (path / PENDING / "recipe.yaml").write_text("seed")
    return path


@pytest.mark.parametrize("force", [False, True])
def test_what_a_killed_fit_leaves_is_as_good_as_an_empty_folder(tmp_path: Path, force: bool) -> None:
    path = left_by_a_kill(tmp_path / "run")
    check_free(path, force)
    claimed = claim(path, force)
    assert list(path.iterdir()) == []
    with pytest.raises(UsageError), claimed.undone_if_empty():
        raise UsageError("no")
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_fit_leaves_is_no_run_yet(tmp_path: Path) -> None:
    path = left_by_a_kill(tmp_path / "run")
    error = refused(path)
    assert error.message == f"'{path}': the fit was stopped before it had saved anything"
    assert error.hint == f"begin it again: vgi fit DATA --out {path}"
    assert find_run(path) is None


def test_a_folder_of_the_users_own_is_never_taken_for_what_a_kill_left(tmp_path: Path) -> None:
    path = left_by_a_kill(tmp_path / "run")
    (path / "thesis.txt").write_text("x")
    for call in (lambda: check_free(path, True), lambda: claim(path, True), lambda: find_run(path)):
        with pytest.raises(UsageError, match="is not a run"):
            call()
    assert (path / PENDING / "recipe.yaml").exists()
    (path / "thesis.txt").unlink()
    shutil.rmtree(path / PENDING)
    (path / PENDING).write_text("a file of that name")
    with pytest.raises(UsageError, match="exists"):
        check_free(path, False)


def test_the_first_checkpoint_of_another_fit_is_left_alone(tmp_path: Path) -> None:
    path = left_by_a_kill(tmp_path / "run")
    with sole_writer(path), pytest.raises(UsageError, match=r"is being written by process \d+ on host"):
        claim(path)
    assert (path / PENDING / "recipe.yaml").exists()


def test_what_a_kill_left_of_a_card_goes_with_the_next(tmp_path: Path) -> None:
    run = saved(tmp_path / "run")
    (run.path / ".README.md.77.tmp").write_text("ha")
    assert run.keep_card("card")
    assert (run.path / "README.md").read_text() == "card"
    assert [path.name for path in run.path.iterdir() if path.name.startswith(".")] == []


def killed_while_replacing(path: Path) -> dict[str, bytes]:
    """What a kill leaves of `--force` before the new run has anything; the files of the run that it was to replace."""
    saved(path)
    before = files(path)
    claim(path, force=True)
    assert list(path.iterdir()) == []
    return before


def aside_of(path: Path) -> list[Path]:
    return [one for one in path.parent.iterdir() if one.name.startswith(f".{path.name}.replaced.")]


@pytest.mark.parametrize("left", ["nothing", "an empty folder", "a lock", "no model"])
def test_of_a_run_that_was_being_replaced_every_command_says_where_it_is(tmp_path: Path, left: str) -> None:
    path = tmp_path / "my run"
    before = killed_while_replacing(path)
    (aside,) = aside_of(path)
    if left == "nothing":
        path.rmdir()
    elif left == "a lock":
        (path / ".lock").touch()
    elif left == "no model":
        new_run(path)
    with pytest.raises(RunError) as caught:
        RunFolder.open(path).require_model()
    assert caught.value.hint is not None
    back = f"rm -rf '{path}' && mv '{aside}' '{path}'"
    expected = f"the run that --force was to replace there is still in '{aside}' (to have it back: {back}). Or "
    assert caught.value.hint.startswith(expected)
    os.system(back)
    assert files(path) == before and aside_of(path) == []
    RunFolder.open(path).require_model()


def test_while_the_new_run_is_being_written_the_old_one_is_not_offered_without_saying_so(tmp_path: Path) -> None:
    path = tmp_path / "run"
    killed_while_replacing(path)
    with sole_writer(path), pytest.raises(RunError) as caught:
        RunFolder.open(path)
    assert caught.value.hint is not None
    assert f"(process {os.getpid()} on host " in caught.value.hint
    assert "writes the new one; without it: rm -rf " in caught.value.hint


@pytest.mark.parametrize("left", ["nothing", "an empty folder", "no model"])
def test_force_goes_on_replacing_a_run_where_it_was_killed(tmp_path: Path, left: str) -> None:
    path = tmp_path / "run"
    before = killed_while_replacing(path)
    if left == "nothing":
        path.rmdir()
    elif left == "no model":
        new_run(path)
    claim(path, force=True).rollback()
    if left != "no model":  # that one is there again
        assert files(path) == before and aside_of(path) == []
        killed_while_replacing_again = claim(path, force=True)
        assert killed_while_replacing_again.replaces and len(aside_of(path)) == 1
    claimed = claim(path, force=True)
    claimed.commit()
    assert aside_of(path) == []


def test_force_removes_what_it_left_when_it_was_killed_after_the_new_run_had_a_model(tmp_path: Path) -> None:
    path = tmp_path / "run"
    killed_while_replacing(path)
    saved(path)
    assert set_aside(path) == [] and beside(path) == aside_of(path) != []
    claim(path, force=True).commit()
    assert aside_of(path) == []


def test_a_kill_of_a_process_of_the_same_number_is_no_obstacle(tmp_path: Path) -> None:
    """In containers a command often has the same one."""
    path = tmp_path / "run"
    killed_while_replacing(path)
    path.rmdir()
    killed_while_replacing(path)
    assert len(aside_of(path)) == 2


def linked(tmp_path: Path) -> tuple[Path, Path]:
    """A link, and the place of a run on another disk to which it leads."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "here").mkdir()
    link = tmp_path / "here" / "run"
    link.symlink_to("../disk/real")
    return link, tmp_path / "disk" / "real"


def names(tmp_path: Path) -> list[str]:
    return sorted(path.name for folder in ("here", "disk") for path in (tmp_path / folder).iterdir())


def test_through_a_link_the_run_itself_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    link, real = linked(tmp_path)
    saved(real)
    before = files(real)
    claimed = claim(link, force=True)
    assert claimed.path == link and claimed.replaces and link.is_symlink() and files(real) == {}
    assert [one.parent for one in beside(link)] == [real.parent] and beside(link) == beside(real)
    claimed.rollback()
    assert link.is_symlink() and files(real) == before and names(tmp_path) == ["real", "run"]
    claimed = claim(link, force=True)
    RunFolder(link, {"format": 1, "metrics_bytes": 0}).save(MODEL, {})
    claimed.commit()
    assert link.is_symlink() and "recipe.yaml" not in files(real) != {} and names(tmp_path) == ["real", "run"]


def test_a_refused_fit_through_a_link_to_an_empty_folder_leaves_both(tmp_path: Path) -> None:
    link, real = linked(tmp_path)
    real.mkdir()
    claimed = claim(link)
    (link / "recipe.yaml").write_text("")
    with pytest.raises(UsageError, match="no"), claimed.undone_if_empty():
        raise UsageError("no")
    assert link.is_symlink() and real.is_dir() and files(real) == {}


@pytest.mark.parametrize("left", ["nothing", "an empty folder"])
def test_a_run_that_was_being_replaced_through_a_link_comes_back(tmp_path: Path, left: str) -> None:
    link, real = linked(tmp_path)
    saved(real)
    before = files(real)
    claim(link, force=True)
    if left == "nothing":
        real.rmdir()
    with pytest.raises(RunError) as caught:
        RunFolder.open(link)
    (aside,) = beside(link)
    back = f"rm -rf {real} && mv {aside} {real}"
    assert f"is still in '{aside}' (to have it back: {back})" in str(caught.value.hint)
    claim(link, force=True).rollback()
    assert link.is_symlink() and files(real) == before and names(tmp_path) == ["real", "run"]
    claim(link, force=True)
    os.system(back)
    assert link.is_symlink() and files(link) == before and names(tmp_path) == ["real", "run"]


def test_a_link_to_nothing_is_no_place_for_a_run(tmp_path: Path) -> None:
    link, real = linked(tmp_path)
    with pytest.raises(UsageError, match="exists") as caught:
        claim(link)
    assert caught.value.hint == "it is a link to nothing: remove it" and not real.exists()


def test_a_run_without_a_name_here_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    with pytest.raises(UsageError, match=r"--out: '\.' has no name here, so --force does not replace it"):
        claim(Path(), force=True)
    assert RunFolder.open(tmp_path / "run").fitted


def test_tensors_of_a_type_that_no_fit_writes_are_refused(tmp_path: Path) -> None:
    """Some of torch's types cannot even be summed."""
    save_file({"x": torch.zeros(3).to(torch.float8_e4m3fn)}, tmp_path / "a.safetensors")
    with pytest.raises(RunError, match=r"damaged \('x' has elements of type float8_e4m3fn\)"):
        read_tensors(tmp_path / "a.safetensors")
