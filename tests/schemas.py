"""What a command prints as JSON, held against its published schema (vgi_cli/schemas/)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

import vgi_cli

FOLDER = Path(vgi_cli.__file__).parent / "schemas"


def checked(name: str, text: str) -> Any:
    """The value of one JSON object, after it was found to be what `name`.json says."""
    value = json.loads(text)
    _validator(name).validate(value)
    return value


def schema_of(words: Sequence[str]) -> str | None:
    """The name of the schema of what a command line prints; None: it asks for no JSON."""
    if "--json" not in words:
        return None
    command = [word for word in words[:2] if not word.startswith("-")]
    return "-".join(command) if command[:1] == ["recipe"] else command[0] if command else None


@cache
def _validator(name: str) -> Any:
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    of = jsonschema.validators.validator_for(schema)
    of.check_schema(schema)
    return of(schema)
