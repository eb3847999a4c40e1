"""A shard of a table: consecutive rows that one process fills, and the names of the files that it writes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vgi_cli.errors import UsageError
from vgi_cli.table.inputs import split_name


@dataclass(frozen=True)
class Shard:
    """Shard `number` (from 1) of `count`."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """What `--shard 2/3` means. UsageError where it means nothing."""
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip())
        if found is None:
            raise UsageError(f"--shard: expected I/N, got '{text}'", "for example --shard 2/3, the second of three")
        number, count = int(found[1]), int(found[2])
        if not 1 <= number <= count:
            raise UsageError(
                f"--shard {number}/{count}: shards are counted from 1 to their number",
                f"for example --shard 1/{max(count, 1)}",
            )
        return cls(number, count)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def rows(self, N: int) -> range:
        """Its rows of N: shards differ by one row at most. UsageError where there are fewer rows than shards."""
        if self.count > N:
            raise UsageError(
                f"--shard {self}: the table has {N:,} row{'s' * (N != 1)}, fewer than shards",
                f"at most --shard {min(self.number, N)}/{N}",
            )
        return range(N * (self.number - 1) // self.count, N * self.number // self.count)

    def named(self, path: Path) -> Path:
        """The file of this shard: `filled.1.csv` -> `filled.1.shard-02-of-12.csv`, in the order of the shards where
        names are sorted."""
        stem, suffix = split_name(path)
        width = len(str(self.count))
        return path.with_name(f"{stem}.shard-{self.number:0{width}}-of-{self.count}{suffix}")
