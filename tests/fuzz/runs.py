"""Damaged runs and hostile settings, drawn from a seed."""

from __future__ import annotations

import contextlib
import json
import math
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vgi_cli.runs.files import json_bytes, sha256
from vgi_cli.runs.manifest import sealed

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
    name = rng.choice([name for name in ("manifest.json", *FILES) if (run / name).exists()])
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


def seal(run: Path) -> None:
    """Make the manifest of a run vouch for its files as they are now, as one can who means harm."""
    path = run / "manifest.json"
    values = json.loads(path.read_bytes())
    for name in values.get("files", {}):
        if (run / name).exists():
            values["files"][name] = sha256((run / name).read_bytes())
    path.write_bytes(json_bytes(sealed(values)))


def tensors(rng: random.Random, data: bytes) -> bytes:
    """A safetensors file whose header promises something else: other types, shapes and places, or a huge length."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    match rng.randrange(6):
        case 0:
            return rng.choice((2**63, 2**40, len(data), 0, 1)).to_bytes(8, "little") + data[8:]
        case 1 | 2:
            text = edit(rng, json.dumps(header).encode())
        case _:
            name = rng.choice(list(header))
            key = rng.choice(("dtype", "shape", "data_offsets"))
            shape = header[name]["shape"]
            odd = {
                "dtype": ("F64", "F32", "I64", "U8", "BOOL", "BF16", "F8_E4M3", "x"),
                "shape": ([], [0], [1], [2**40], [2**31, 2**31], [-1], [shape], [1, *shape]),
                "data_offsets": ([0, 0], [0, 2**40], [8, 0], [-8, 8], [0]),
            }
            header[name][key] = rng.choice(odd[key])
            text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def values(rng: random.Random, data: bytes) -> bytes:
    """The same tensors with other numbers in them: not finite, huge, or any bytes."""
    start = 8 + int.from_bytes(data[:8], "little")
    out = bytearray(data)
    some = rng.choice((struct.pack("<d", math.nan), struct.pack("<d", math.inf), struct.pack("<d", 1e300), b"\xff" * 8))
    for _ in range(rng.choice((1, 3, 50))):
        at = start + rng.randrange(max((len(out) - start) // 8, 1)) * 8
        out[at : at + 8] = some[: max(len(out) - at, 0)]
    return bytes(out)


def hostile(rng: random.Random, run: Path) -> str:
    """Change one file of a run and seal it again; its name."""
    tensors_of = sorted(path.name for path in run.glob("*.safetensors"))
    name = rng.choice(("schema.json", "schema.json", "recipe.yaml", "manifest.json", "model.safetensors", *tensors_of))
    path = run / name
    data = path.read_bytes()
    if name.endswith(".json"):
        for _ in range(rng.choice((1, 1, 2))):
            data = edit(rng, data)
    elif name.endswith(".yaml"):
        data = recipe(rng, [data])
    else:
        data = rng.choice((tensors, tensors, values))(rng, data)
    path.write_bytes(data)
    with contextlib.suppress(ValueError, TypeError, AttributeError):  # a manifest that is no longer one
        seal(run)
    return name
