"""What to say about the diagnostics of an imputer."""

from __future__ import annotations

from collections.abc import Mapping

LOW_ACCEPTANCE = 0.2
LONG_MEMORY = 0.3
MANY_EXTENDED = 0.5


def remarks(diagnostics: Mapping[str, object]) -> list[str]:
    """Sentences about what is wrong with the chains of an imputer (its `diagnostics()`); empty when nothing is."""
    out = []
    by_column = diagnostics.get("acceptance_by_column")
    if isinstance(by_column, Mapping):
        low = {name: a for name, a in by_column.items() if a < LOW_ACCEPTANCE}
        if low:
            worst = min(low, key=lambda name: low[name])
            out.append(
                f"fills of {len(low)} column{'s' * (len(low) != 1)} rarely move away from where they start (worst: "
                f"'{worst}', {low[worst]:.0%} of the proposals are accepted): a longer fit helps"
            )
    memory = diagnostics.get("memory")
    if isinstance(memory, float) and memory > LONG_MEMORY:
        out.append(
            f"draws may still depend on where their chains started (correlation {memory:.2f} between their states at "
            "half-time and at the end): a longer fit helps"
        )
    extended = diagnostics.get("extended")
    if isinstance(extended, float) and extended > MANY_EXTENDED:
        out.append(f"{extended:.0%} of the chains were made longer, as few proposals were accepted")
    return out
