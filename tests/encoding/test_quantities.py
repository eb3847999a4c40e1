"""Numbers with wide gaps between them are quantities where something is computed from them, and codes else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from vgi_cli.columns.base import Encoding
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import Said, infer_columns, infer_schema, schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.table.frames import from_frame

N = 400


def invoices(seed: int, n: int = N) -> pd.DataFrame:
    """Packs of 1 to 48 pieces, of which nobody sells 2, and a tax of 7 or 19 percent."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"quantity": rng.choice([1, 6, 12, 24, 48], n), "price": rng.lognormal(2, 0.6, n).round(2)})
    frame["amount"] = (frame.quantity * frame.price).round(2)
    frame["vat"] = rng.choice([7, 19], n)
    frame["tax"] = (frame.amount * frame.vat / 100 + 1e-9).round(2)
    frame["shelf"] = rng.choice([1, 7, 13, 99], n)
    return frame.astype("float").mask(rng.random(frame.shape) < 0.15)


def kinds(schema: Schema) -> dict[str, str]:
    return {column.name: column.kind for column in schema.columns}


def words(schema: Schema) -> list[str]:
    return [one.words() for one in schema.relations]


@pytest.mark.parametrize("seed", range(3))
def test_what_a_price_is_multiplied_by_is_a_quantity(seed: int) -> None:
    schema, notes = infer_schema(from_frame(invoices(seed)))
    assert kinds(schema)["quantity"] == kinds(schema)["vat"] == "integer"
    assert kinds(schema)["shelf"] == "categorical"
    assert words(schema) == [
        "'amount' = 'quantity' × 'price'",
        "'tax' = 0.01 × 'quantity' × 'price' × 'vat', rounded",
    ]
    said = [note for note in notes if "taken for numbers" in note]
    assert said[0] == (
        "column 'quantity' is taken for numbers, though they are few, as codes are, since 'amount' = 'quantity' × "
        "'price': `--column quantity=categorical` if they are codes"
    )
    assert len(said) == 2


@pytest.mark.parametrize("seed", range(3))
def test_so_are_two_fractions(seed: int) -> None:
    """Rates of 0.07 and 0.19, tariffs of 0.25 and 0.32; holes of theirs get one of the two."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"net": rng.lognormal(4, 0.7, N).round(2), "vat": rng.choice([0.07, 0.19], N)})
    frame["gross"] = (frame.net * (1 + frame.vat) + 1e-9).round(2)
    frame["kwh"], frame["price"] = rng.gamma(3, 100, N).round(1), rng.choice([0.25, 0.32], N)
    frame["cost"], frame["group"] = (frame.kwh * frame.price).round(4), rng.choice([0.5, 0.7], N)
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    schema, _ = infer_schema(from_frame(frame))
    assert [kinds(schema)[name] for name in ("vat", "price", "group")] == ["numeric", "numeric", "categorical"]
    assert sorted(words(schema)) == ["'cost' = 'kwh' × 'price'", "'gross' = 'net' × (1 + 'vat'), rounded"]
    place = schema.modelled.index("price")
    fills = schema.encoded[place].decode(np.linspace(-3, 3, 50)[:, None])
    assert set(fills.tolist()) == {0.25, 0.32}


@pytest.mark.parametrize("seed", range(3))
def test_so_is_a_part_of_a_total_and_its_values_are_no_codes_for_missing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"base": rng.integers(20, 90, N), "fee": rng.choice([0, 15, 100], N)})
    frame["total"] = frame.base + frame.fee
    schema, notes = infer_schema(from_frame(frame))
    assert kinds(schema)["fee"] == "integer" and words(schema) == ["'total' = 'base' + 'fee'"]
    assert not [note for note in notes if "if it means missing" in note]


@pytest.mark.parametrize("seed", range(3))
def test_codes_of_which_another_one_is_composed_stay_codes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"region": rng.choice([1, 7, 13, 99], N), "place": rng.integers(1, 60, N)})
    frame["code"] = 100 * frame.region + frame.place
    assert kinds(schema_alone(from_frame(frame)))["region"] == "categorical"


def test_what_nothing_is_computed_from_stays_a_code() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({f"x{i}": rng.choice([1, 7, 13, 99], N) for i in range(6)})
        frame[["y", "z"]] = rng.integers(0, 40, (N, 2))
        found = kinds(schema_alone(from_frame(frame)))
        assert [found[f"x{i}"] for i in range(6)] == ["categorical"] * 6


def test_who_names_the_kind_or_wants_no_relations_has_it_so() -> None:
    table = from_frame(invoices(0))
    schema, notes = infer_schema(table, kinds={"quantity": "categorical"})
    assert kinds(schema)["quantity"] == "categorical" and not [note for note in notes if "'quantity' is taken" in note]
    schema = schema_alone(table, Said(encoding=Encoding(relations="ignore")))
    assert kinds(schema)["quantity"] == kinds(schema)["vat"] == "categorical"


def test_the_statistics_of_some_rows_are_of_the_same_kind() -> None:
    table, rows = from_frame(invoices(0)), np.arange(N) % 2 == 0
    said = Said(rows=rows)
    assert kinds(infer_columns(table, said))["quantity"] == "categorical"
    some = infer_columns(table, said, ["quantity"])
    assert kinds(some)["quantity"] == "integer" and kinds(some)["vat"] == "categorical"


@pytest.mark.parametrize("seed", range(3))
def test_fills_keep_to_what_is_computed(seed: int) -> None:
    frame = invoices(seed).dropna(subset=["quantity", "price", "amount"])[["quantity", "price", "amount"]]
    schema = schema_alone(from_frame(frame))
    true = frame.to_numpy()
    rng = np.random.default_rng(seed)
    missing = rng.random(true.shape) < 0.4
    missing[(~missing[:, 2]) & missing[:, :2].all(1), 1] = False  # else no number of pieces may suit an amount
    drawn = np.stack([np.stack([rng.permutation(column) for column in true.T], 1) for _ in range(3)])
    filled = np.where(missing, drawn, true)
    keep_relations(filled, np.where(missing, 0.0, true), missing, schema)
    assert np.abs(filled[..., 2] - filled[..., 0] * filled[..., 1]).max() < 1e-6
    assert set(np.unique(filled[..., 0])) == {1, 6, 12, 24, 48}
    alone = missing.sum(1) == 1
    assert np.allclose(filled[:, alone], true[alone], rtol=0, atol=1e-9)
