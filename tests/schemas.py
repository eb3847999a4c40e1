"""What a command prints as JSON, held against its published schema (vgi_cli/schemas/)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

import vgi_cli

FOLDER = Path(vgi_cli.__file__).parent / "schemas"


def checked(name: str, text: str) -> Any:
    """The value of one JSON object, after it was found to be what `name`.json says."""
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    value = json.loads(text)
    jsonschema.validators.validator_for(schema).check_schema(schema)
    jsonschema.validate(value, schema)
    return value
