"""What a check found, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vgi_cli.columns.wording import LONGEST, brief, cut_names
from vgi_cli.commands.dry_run import DryRun, about
from vgi_cli.encoding.kinds import column_lines
from vgi_cli.encoding.redundant import UNLESS_KEPT

SHOWN_PAIRS = 5
WIDEST = 8
"""Columns of a pattern that are named in the text; the JSON object has all."""
MAR = (
    "it compares means only, and cannot tell cells whose absence depends on what is observed (MAR), which every model "
    "here allows for, from cells that are missing because of their own value (MNAR), which none does"
)


def pair_words(pairs: Sequence[tuple[str, str]]) -> str:
    """What it means that pairs of columns are never observed together."""
    what = "this pair" if len(pairs) == 1 else "these pairs"
    return (
        f"no row shows both columns of {what}. How they go together given the other columns cannot be learnt from the "
        "table: in the fills it rests on the model alone, and no cell can contradict it. Do not report a correlation "
        "of such a pair, or a regression of one on the other, as a finding"
    )


def verdict(rejected: bool) -> str:
    """What Little's test says, in words."""
    if rejected:
        return (
            "the cells are hardly missing completely at random: rows with other holes have other means. Rows without "
            "holes are then no fair sample; fits here need only that what is missing depends on what is observed"
        )
    return (
        "the means of the columns say nothing against cells missing completely at random; that does not show that they "
        "are (with few rows the test sees little, and of levels it sees nothing)"
    )


def text_of(values: Mapping[str, Any], taken: DryRun) -> str:
    """The JSON object as Markdown, with the recipe that fixes the kinds at its end."""
    table = values["table"]
    columns = zip(taken.columns, values["columns"], strict=True)
    with_shares = [one._replace(missing=own["missing_share"]) for one, own in columns]
    lines = [
        f"# {table['name']}: {_count(table['rows'], 'row')}, {_count(table['columns'], 'column')}",
        *_section("Columns", column_lines(with_shares)),
        *_section("What is missing", _missing_lines(values["missing"], sum(c["modelled"] for c in values["columns"]))),
        *_section("Suspects", [f"- {cut_names(line)}" for line in values["suspects"]] or ["none"]),
        *(_section("What holds in every row", _relation_lines(values["relations"])) if values["relations"] else []),
        *_section("Missing completely at random? Little's test", list(_mcar_lines(values["mcar"]))),
        *(_section("Time and memory of a fit", _model_lines(values["models"])) if "models" in values else []),
        *(_section("Notes", [f"- {cut_names(line)}" for line in values["notes"]]) if values["notes"] else []),
        *_section(
            "What a fit takes the columns for",
            ["as a recipe that fixes it (`vgi fit --recipe FILE`), and as flags:", "", "```yaml"],
        ),
    ]
    return "\n".join(lines) + f"\n{taken.fixing().rstrip()}\n```\n"


def _relation_lines(relations: Sequence[str]) -> list[str]:
    return [*(f"- {cut_names(line)}" for line in relations), "", f"fills keep to these ({UNLESS_KEPT})"]


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *lines]


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _missing_lines(missing: Mapping[str, Any], columns: int) -> list[str]:
    """What is missing in the modelled columns."""
    rows = sum(missing["rows_by_missing_cells"].values())
    by_row = ", ".join(f"{k}: {n:,}" for k, n in list(missing["rows_by_missing_cells"].items())[:12])
    lines = [
        f"{missing['share']:.1%} of the cells of {_count(columns, 'modelled column')}; "
        f"{missing['complete_rows']:,} of {_count(rows, 'row')} {'is' if missing['complete_rows'] == 1 else 'are'} "
        "complete",
        f"rows by their number of missing cells: {by_row}{', …' * (len(missing['rows_by_missing_cells']) > 12)}",
    ]
    if nothing := missing["rows_with_nothing"]:
        lines.append(
            f"{_count(nothing, 'row')} without a cell of these: not used by a fit, filled from the model alone"
        )
    top = missing["top_patterns"]
    more = f", the {len(top)} of most rows" if missing["patterns"] > len(top) else ""
    lines += ["", f"{_count(missing['patterns'], 'pattern')} of missing cells{more}:", ""]
    width = max([len(f"{pattern['rows']:,}") for pattern in top] + [4])
    lines.append(f"  {'rows':>{width}}   share  missing")
    for pattern in top:
        names = ", ".join(brief(name, LONGEST) for name in pattern["missing"][:WIDEST]) or "nothing"
        extra = f" and {len(pattern['missing']) - WIDEST} more" if len(pattern["missing"]) > WIDEST else ""
        lines.append(f"  {pattern['rows']:>{width},}  {pattern['share']:>6.1%}  {names}{extra}")
    apart = missing["never_together"]
    if apart["pairs"]:
        shown = [f"'{brief(a)}' and '{brief(b)}'" for a, b in apart["first"][:SHOWN_PAIRS]]
        more = f" and {apart['pairs'] - len(shown):,} more pairs" if apart["pairs"] > len(shown) else ""
        lines += ["", f"never observed together: {'; '.join(shown)}{more}", f"{apart['meaning']}."]
    return lines


def _mcar_lines(mcar: Mapping[str, Any]) -> Iterator[str]:
    if "why_not" in mcar:
        yield f"not made: {mcar['why_not']}"
        return
    p = f"p = {mcar['p_value']:.3g}" if mcar["p_value"] >= 1e-4 else "p < 0.0001"
    yield (
        f"chi-squared {mcar['statistic']:.2f} on {mcar['df']} degrees of freedom, {p} "
        f"({_count(len(mcar['columns']), 'column')} of numbers, {_count(mcar['patterns'], 'pattern')})"
    )
    yield f"{mcar['verdict']}."
    yield "caveats:"
    yield from (f"- {line}" for line in mcar["caveats"])


def _model_lines(models: Mapping[str, Any]) -> list[str]:
    from vgi_cli.machine.memory import in_words  # loads torch, which the trials have loaded

    lines = [row for row in model_rows(models) if row[3]]
    refused = [f"- {fit['model']}: {fit['why_not']}" for fit in models["fits"] if "why_not" in fit]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = [
        "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return [f"{models['how']} ({in_words(models['free_memory'])} are free)", "", *rows, *refused]


def model_rows(models: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """A line for each model, below their heads: its name, its method, time and memory (or why it cannot be fitted, and
    no memory)."""
    from vgi_cli.machine.memory import in_words

    rows = [("model", "method", "time", "memory")]
    for fit in models["fits"]:
        name = f"{fit['model']}{' (default)' * (fit['model'] == 'auto')}"
        if "why_not" in fit:
            rows.append((name, fit["method"], fit["why_not"], ""))
        else:
            most = "at most " if "epochs" in fit else ""
            rows.append((name, fit["method"], f"{most}{about(fit['seconds'])}", in_words(fit["memory"])))
    return rows
