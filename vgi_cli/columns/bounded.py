"""Bounded: numbers of an interval, or from a limit on, that the user named as such."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import final

from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, Column, Request
from vgi_cli.columns.bounds import parse_limits
from vgi_cli.columns.number import Number, number_asked
from vgi_cli.columns.numerals import plain
from vgi_cli.columns.wording import kind_flag
from vgi_cli.errors import InputError, UsageError


@final
@dataclass(frozen=True, config=STRICT)
class Bounded(Number):
    """A column of numbers whose fills stay within limits that were asked for with the kind; `integer`: whether all are
    whole."""

    words = ("bounded",)

    _: KW_ONLY
    integer: bool = False

    @property
    def whole(self) -> bool:
        return self.integer

    @property
    def request(self) -> str:
        """`bounded:0:100`: the limits that were asked for."""
        low, high = ("" if b is None or b.why != "asked" else plain(b.value) for b in (self.lower, self.upper))
        return f"bounded:{low}:{high}" if low or high else "bounded"

    @classmethod
    def check_detail(cls, word: str, detail: str) -> str | None:
        if ":" not in detail:
            return f"expected LOW:HIGH, LOW: or :HIGH, got '{detail}'"
        try:
            parse_limits("", detail, "--column")
        except UsageError as error:
            return error.message.partition(": ")[2]
        return None

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        if asked.kind not in cls.words:
            return None
        said = f"{cells.name}={asked.kind}" + ("" if asked.detail is None else f":{asked.detail}")
        if asked.detail is not None:
            if asked.bounds is not None and asked.bounds.named:
                message = f"--bounds {asked.bounds.said} disagrees with --column {said}"
                raise UsageError(message, "say the limits once")
            bounds = parse_limits(cells.name, asked.detail, "--column")
            asked = asked._replace(bounds=bounds._replace(said=said))
        number = number_asked(cells, asked)
        if not isinstance(number, Number):
            return number
        if not number.bounds:
            message = f"{cells.label}: --column {said}, but nothing in column '{cells.name}' says what limits it"
            raise InputError(message, f"name them: `{kind_flag(cells.name, f'bounded:{plain(number.low)}:')}`")
        return cls(**number.fields | {"kind": "bounded", "integer": number.whole})
