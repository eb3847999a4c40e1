"""Damaged runs and hostile settings, drawn from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FILES = (
    "manifest.json",
    "schema.json",
    "recipe.yaml",
    "metrics.jsonl",
    "model.safetensors",
    "conditionals.safetensors",
    "imputations.safetensors",
    "state.safetensors",
)
VALUES: tuple[Any, ...] = (None, True, -1, 0, 10**30, 1e308, "", "x", [], {}, [[]], {"a": 1})


def flip(rng: random.Random, data: bytes) -> bytes:
    """One to three bytes changed."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        out[rng.randrange(len(out))] ^= rng.randint(1, 255)
    return bytes(out)


def cut(rng: random.Random, data: bytes) -> bytes:
    """The beginning."""
    return data[: rng.randrange(len(data))]


def drop(rng: random.Random, data: bytes) -> bytes:
    """A piece taken out."""
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randint(1, 40) :]


def repeat(rng: random.Random, data: bytes) -> bytes:
    """A piece written twice."""
    start = rng.randrange(len(data))
    return data[:start] + data[start : start + rng.randint(1, 40)] + data[start:]


def noise(rng: random.Random, data: bytes) -> bytes:
    """Something else altogether."""
    return rng.randbytes(rng.randint(0, 300))


DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (flip, flip, flip, cut, drop, repeat, noise)


def places(values: Any) -> Iterator[tuple[Any, Any]]:
    """Every mapping or list within JSON values, with each of its keys or indices."""
    if isinstance(values, dict | list):
        for key in list(values) if isinstance(values, dict) else range(len(values)):
            yield values, key
            yield from places(values[key])


def edit(rng: random.Random, data: bytes) -> bytes:
    """JSON with a key taken out, renamed, or given another value."""
    values = json.loads(data)
    inside, key = rng.choice(list(places(values)))
    kind = rng.randrange(3)
    if kind == 0 or isinstance(inside, list):
        del inside[key]
    elif kind == 1:
        inside[flip(rng, key.encode()).decode("latin-1")] = inside.pop(key)
    else:
        inside[key] = rng.choice(VALUES)
    return json.dumps(values, indent=2).encode()


def damage(rng: random.Random, run: Path) -> str:
    """Damage one file of a run in one way, and return its name."""
    name = rng.choice(("manifest.json", *FILES))
    path = run / name
    if rng.random() < 0.08:
        path.unlink()
        return name
    ways = (*DAMAGES, *((edit,) * 6 if name.endswith(".json") else ()))
    path.write_bytes(rng.choice(ways)(rng, path.read_bytes()))
    return name


KEYS = (
    *("seed", "threads", "epochs", "bootstrap", "patience", "stop_after", "time_limit", "val", "device", "select"),
    *("compile", "plugins", "data", "mask", "table.id", "table.columns", "table.blocks", "table.na_values"),
    *("table.transform", "table.unbounded", "table.delimiter", "model.name", "model.hidden", "model.components"),
    *("model.latents", "model.encoder", "model.factors", "method.name", "method.imputations", "method.trunk"),
    *("method.steps", "method.layout", "optim.lr", "optim.batch_size", "optim.clip", "model", "optim", "x.y", ""),
)
TEXTS = (
    *("1e400", "-1e400", ".nan", ".inf", "1" + "0" * 54, "9" * 5000, "-" + "9" * 400, "0", "-1", "1.5", "true", "null"),
    *("~", "auto", "[]", "{}", "[[]]", "[1, [2, [3]]]", "{a: {b: {c: 1}}}", "&a [*a]", "*a", "[" * 3000, "{a: " * 3000),
    *("'", '"', "!!python/object:os.system {}", "\x07", "\ud800", "💥", "a: b: c", "- - -", "? x", "%YAML 9", "|", ">"),
    *("2h", "40s", "1" + "0" * 30 + "h", "fa", "flow", "vae", "mixture", "em", "vgi", "cuda:99", "/dev/null", "3", "8"),
)


def item(rng: random.Random) -> str:
    """Something after `--set`."""
    text = rng.choice(TEXTS)
    if rng.random() < 0.2:
        text = f"[{text}, {rng.choice(TEXTS)}]"
    return f"{rng.choice(KEYS)}={text}" if rng.random() < 0.95 else text


def recipe(rng: random.Random, sources: list[bytes]) -> bytes:
    """A recipe that was tampered with: lines with hostile values, or bytes that were damaged."""
    data = rng.choice(sources)
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.5 and data:
            data = rng.choice(DAMAGES)(rng, data)
        else:
            key, text = rng.choice(KEYS).rpartition(".")[2], rng.choice(TEXTS).encode("utf-8", "replace")
            lines = data.split(b"\n")
            indent = rng.choice((b"", b"  ", b"    "))
            lines.insert(rng.randint(0, len(lines)), indent + key.encode() + b": " + text)
            data = b"\n".join(lines)
    return data
