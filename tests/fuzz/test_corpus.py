"""Inputs that once ended badly, each a file of `corpus/`, and a few new ones of every kind."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import guided, run
from tests.fuzz.inputs import CORPUS, Hang, Input, limited
from tests.fuzz.runs import DAMAGES
from tests.fuzz.trial import Wrong

FILES = sorted(CORPUS.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_input_that_once_ended_badly(path: Path) -> None:
    with limited():
        Input.from_json(path.read_text(encoding="utf-8")).attempt()


def test_there_is_a_corpus_and_it_is_written_as_it_is_read() -> None:
    assert len(FILES) > 5
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert Input.from_json(text).to_json() == text, path.name
    odd = Input("bytes", [["a", "\x1b"]], {"x": b"\xff\0"}, base=True, stdin=b"\x80", ends=[2])
    assert Input.from_json(odd.to_json()) == odd


@pytest.mark.parametrize("kind", ["mask", "recipe", "options", "run"])
def test_new_inputs(kind: str) -> None:
    ends, wrong = run.hunt(kind, first=0, count=6)
    assert not wrong and ends["refused"]


def test_kinds_take_turns_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, int]] = []
    monkeypatch.setattr(run, "TURNS", 2)

    def hunt(kind: str, first: int, count: int) -> tuple[Counter[str], list[str]]:
        tried.append((kind, first))
        return Counter(done=count), []

    monkeypatch.setattr(run, "hunt", hunt)
    ends, _ = run.take_turns({"csv": 3, "mask": 2}, 10, 100.0)
    assert tried == [("csv", 10), ("mask", 10), ("csv", 11), ("csv", 12), ("mask", 11)]
    assert {kind: found["done"] for kind, found in ends.items()} == {"csv": 3, "mask": 2}
    assert run.take_turns({"csv": 3}, 0, -1.0)[0]["csv"].total() == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", run.KINDS)
def test_many_new_inputs(kind: str) -> None:
    assert run.hunt(kind, first=10_000, count=1000)[1] == []


def test_what_ends_badly_is_found() -> None:
    """The checks can fail: a wrong exit code, a file left behind by a refusal, an input without an end."""
    with pytest.raises(Wrong, match="0, not 2"):
        Input("done", [["recipe", "ls"]], ends=(2,)).attempt()
    with pytest.raises(Wrong, match=r"left behind or changed .*x\.log"):
        Input("log", [["fit", "none.csv", "--log-file", "x.log"]]).attempt()
    with pytest.raises(Hang), limited(0.05):
        time.sleep(10)


@pytest.mark.parametrize("name", guided.TARGETS)
def test_parsers_take_damaged_bytes(name: str) -> None:
    rng = Random(name)
    for seed in guided.SEEDS[name]:
        guided.TARGETS[name](seed)
        for _ in range(40):
            guided.TARGETS[name](rng.choice(DAMAGES)(rng, seed))
