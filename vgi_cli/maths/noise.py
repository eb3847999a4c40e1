"""Keyed (counter-based) randomness: a draw depends on seed, purpose, column name, draw number and row key, and on
nothing else, so that batch size, shards, order of rows and number of draws cannot change it."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX2 = -7723592293110705685  # 0x94D049BB133111EB


_G, _M1, _M2 = (np.uint64(factor % 2**64) for factor in (_GOLDEN, _MIX1, _MIX2))
_11, _27, _30, _31 = map(np.uint64, (11, 27, 30, 31))


def _shift_right(z: Tensor, bits: int) -> Tensor:
    """Logical shift of int64."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def mix64(z: Tensor) -> Tensor:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014) on int64 tensors, wrapping modulo 2^64. In numpy on a
    CPU: torch has no unsigned arithmetic, and three to six times the cost."""
    if z.device.type == "cpu" and z.dim():
        return torch.from_numpy(_mixed(z.numpy().view(np.uint64)).view(np.int64))
    z = z + _GOLDEN
    z = (z ^ _shift_right(z, 30)) * _MIX1
    z = (z ^ _shift_right(z, 27)) * _MIX2
    return z ^ _shift_right(z, 31)


def _mixed(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The same of unsigned numbers, of one dimension at least: arrays wrap without a warning."""
    z = z + _G
    z ^= z >> _30
    z *= _M1
    z ^= z >> _27
    z *= _M2
    z ^= z >> _31
    return z


def _in_unit(z: Tensor) -> Tensor:
    """Numbers in (0, 1), float64, of the upper 53 bits of int64; in numpy on a CPU, as `mix64`."""
    if z.device.type == "cpu" and z.dim():
        bits = (z.numpy().view(np.uint64) >> _11).astype(np.float64)
        bits += 0.5
        bits *= 2.0**-53
        return torch.from_numpy(bits)
    return _shift_right(z, 11).to(torch.float64).add_(0.5).mul_(2.0**-53)


def hash64(text: str) -> int:
    """A stable signed 64-bit hash of a text (BLAKE2b)."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def row_keys(labels: Sequence[str]) -> Tensor:
    """Row keys [R] int64 from labels (the text of the id columns and its count so far, or the row number)."""
    return torch.tensor([hash64(label) for label in labels], dtype=torch.int64)


@functools.lru_cache(maxsize=64)
def _name_keys(names: tuple[str, ...], device: torch.device) -> Tensor:
    """Keys [P] int64 of names; kept, for a chain asks for those of the same columns in every sweep."""
    return torch.tensor([hash64(name) for name in names], dtype=torch.int64, device=device)


@dataclass(frozen=True)
class KeyedNoise:
    """Randomness for `len(draws)` draws of R rows of a table with the named columns.

    seed     the run's seed
    columns  names of the D encoded columns, in the model's order
    rows     [R] int64 row keys
    draws    [n] int64 numbers of the draws, from 0; [1, R] where each row has a draw of its own (`paired`)
    purpose  path that separates independent streams; `at` extends it
    strata   of so many draws, those from 0 on and so on, each has its own part of the unit interval, in an order of its
             own for each row and name (Latin hypercube sampling; McKay, Beckman and Conover 1979): each draw by itself
             is as without, and a mean of them all is much nearer to what many would come to; 0: they are independent
    """

    seed: int
    columns: tuple[str, ...]
    rows: Tensor
    draws: Tensor
    purpose: str = ""
    strata: int = 0

    def at(self, purpose: str | int) -> KeyedNoise:
        """An independent stream for a named purpose (a sweep, an attempt, the latents)."""
        return replace(self, purpose=f"{self.purpose}/{purpose}")

    def select(self, *, rows: Tensor | None = None, draws: Tensor | None = None) -> KeyedNoise:
        """The same randomness restricted to some rows (index into R) and draws (index into n)."""
        return replace(
            self,
            rows=self.rows if rows is None else self.rows[rows],
            draws=self.draws if draws is None else self.draws[draws],
        )

    def paired(self, draws: Tensor, rows: Tensor) -> KeyedNoise:
        """The same randomness of pairs of a draw (index [P] into n) and a row ([P] into R): as one draw of P rows."""
        return replace(self, rows=self.rows[rows], draws=self.draws.to(draws.device)[draws][None])

    def uniform(self, names: Sequence[str] | None = None) -> Tensor:
        """Uniform on (0, 1), float64 [n, R, P]: one per draw, row and name (default: the columns).
        A column may have any name: beside columns, names of anything else need a stream of their own (`at`)."""
        return self._uniform(_name_keys(tuple(self.columns if names is None else names), self.rows.device))

    def uniform_at(self, columns: Tensor) -> Tensor:
        """The same of some columns of each row alone, by number [R, P]: [n, R, P]."""
        return self._uniform(_name_keys(self.columns, self.rows.device)[columns])

    def _uniform(self, name_keys: Tensor) -> Tensor:
        """[n, R, P] by the keys of names, [P] or [R, P]."""
        draws = self.draws.to(self.rows.device)
        u = self._independent(name_keys, draws)
        if not self.strata:
            return u
        own = (draws if draws.dim() == 2 else draws[:, None])[:, :, None].expand(u.shape)
        part, keyed = torch.zeros_like(u), self.at("strata")
        for group in torch.unique(draws // self.strata).tolist():
            every = torch.arange(self.strata, device=draws.device) + group * self.strata
            order = keyed._independent(name_keys, every).argsort(0).argsort(0)
            here = own // self.strata == group
            part = torch.where(here, order.gather(0, own % self.strata).to(u.dtype), part)
        return ((part + u) / self.strata).clamp_(max=1 - 2.0**-53)

    def _independent(self, name_keys: Tensor, draws: Tensor) -> Tensor:
        """The same of these draws, without strata."""
        base = hash64(f"{self.seed}{self.purpose}")
        z = mix64(self.rows ^ base)[None, :] ^ mix64(draws + 1 if draws.dim() == 2 else draws[:, None] + 1)
        z = mix64(mix64(z)[:, :, None] ^ name_keys)
        return _in_unit(z)

    def normal(self, names: Sequence[str] | None = None) -> Tensor:
        """Standard normal, float64 [n, R, P], by the inverse of the normal distribution function."""
        return _as_normal(self.uniform(names))

    def normal_at(self, columns: Tensor) -> Tensor:
        """The same of some columns of each row alone, as `uniform_at`."""
        return _as_normal(self.uniform_at(columns))


def _as_normal(u: Tensor) -> Tensor:
    return math.sqrt(2.0) * torch.erfinv((2.0 * u - 1.0).clamp(-1 + 2.0**-53, 1 - 2.0**-53))


def numbered(prefix: str, count: int) -> tuple[str, ...]:
    """Names for latent coordinates: `prefix0`, `prefix1`, …"""
    return tuple(f"{prefix}{i}" for i in range(count))
