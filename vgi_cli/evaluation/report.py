"""The report of `vgi evaluate`: one JSON object, and the same as text. Absent parts are left out, never NaN."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from vgi_cli.columns.base import Carried, ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import in_markdown
from vgi_cli.evaluation.imputation import COVERAGE_DRAWS, ImputationScores, beside
from vgi_cli.evaluation.likelihood.loglik import LogLik
from vgi_cli.evaluation.likelihood.units import Summary, summarise

FORMAT = 1
SHOWN_COLUMNS = 12
"""Columns that are named in one line of the text; the JSON object has all."""


def loglik_part(
    loglik: LogLik, missing: Tensor, log_scale: Tensor, dequantised: int = 0, weight: Tensor | None = None
) -> dict[str, Any]:
    """The `loglik` object from values in data units; empty when no row has an observed cell.

    missing [R, D]; log_scale [D] or [R, D] and weight [R] see `summarise`; `dequantised`: dequantisation draws that the
    values average over, 0 when no column is rounded.
    """
    whole, scales = summarise(loglik.values, missing, log_scale, weight), log_scale.expand(missing.shape)
    if whole is None:
        return {}
    holes = missing.any(1)
    rows, *numbers = whole
    out: dict[str, Any] = dict(zip(Summary._fields[1:], numbers, strict=True))
    out |= {"estimator": loglik.estimator, "rows": rows}
    if fully_missing := int(missing.all(1).sum()):
        out["rows_left_out"] = fully_missing
    for name, chosen in {"complete": ~holes, "incomplete": holes}.items():
        counted = None if weight is None else weight[chosen]
        part = summarise(loglik.values[chosen], missing[chosen], scales[chosen], counted)
        if part is not None:
            out[name] = part._asdict()
    if dequantised:
        out["dequantisation_draws"] = dequantised
    seen = ~missing.all(1)
    if loglik.ess is not None and loglik.half_budget is not None:
        estimated = seen if loglik.estimator == "iwae" else holes & seen
        out["particles"] = loglik.particles
        out["ess"] = float(loglik.ess[estimated].mean())
        out["monte_carlo_se"] = _error_of_mean(_variance(loglik, estimated), seen, weight)
        out["half_budget"] = float(loglik.half_budget[seen].mean())
        if weight is not None:
            out["half_budget"] = float((weight / weight[seen].sum() * loglik.half_budget)[seen].sum())
        if loglik.work is not None:
            spent = Counter(loglik.work.evaluations[estimated].tolist())
            out["work"] = [{"evaluations": each, "rows": spent[each]} for each in sorted(spent)]
            out["rows_at_limit"] = int(loglik.work.limited[estimated].sum())
    elif loglik.variance is not None:
        out["monte_carlo_se"] = _error_of_mean(loglik.variance, seen, weight)
    if loglik.bracket is not None:
        out["simulated"] = loglik.bracket._asdict()
    if loglik.warning is not None:
        out["warning"] = loglik.warning
    return out


def _variance(loglik: LogLik, estimated: Tensor) -> Tensor:
    """[R] squared standard error of each value; 0 of rows that are not `estimated` [R], unless they are the
    mean of several dequantisation draws."""
    if loglik.variance is not None:
        return loglik.variance
    assert loglik.ess is not None
    # the relative variance of the mean of P independent weights, n of them effective, is 1 / n - 1 / P
    return torch.where(estimated, (1 / loglik.ess - 1 / loglik.particles).clamp(min=0), 0.0)


def _error_of_mean(variance: Tensor, seen: Tensor, weight: Tensor | None) -> float:
    """Standard error of the mean log-likelihood of the rows that are `seen` [R], which count by their weight [R], from
    the squared standard error of each [R]."""
    counted = seen.double() if weight is None else seen * weight.double()
    share = counted / counted.sum()
    return float((share.square() * variance)[share > 0].sum().sqrt())


def imputation_part(scores: ImputationScores, alone: ImputationScores | None) -> dict[str, Any]:
    """The `imputation` object.

    alone  the scores of draws from the columns alone, for the same cells; None, or columns that it lacks: nothing was
           observed to draw from
    """
    overall: dict[str, Any] = dict(scores.overall)
    columns: dict[str, Any] = dict(scores.columns)
    kinds: dict[str, Any] = dict(scores.kinds)
    if alone is not None:
        columns |= {name: beside(scores.columns[name], own) for name, own in alone.columns.items()}
        if alone.columns.keys() == columns.keys():  # else these are means of other columns
            overall = beside(overall, alone.overall)
            kinds |= {kind: beside(scores.kinds[kind], own) for kind, own in alone.kinds.items()}
    out = {**overall, "sliced_wasserstein": scores.sliced_wasserstein, "columns": columns}
    return {**out, "kinds": kinds} if kinds else out


def make_report(
    rows: int,
    *,
    loglik: Mapping[str, Any] | None = None,
    objective: float | None = None,
    imputation: Mapping[str, Any] | None = None,
    sampler: Mapping[str, Any] | None = None,
    truth: Mapping[str, Any] | None = None,
    conditionals: Mapping[str, Any] | None = None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """The JSON object. Parts that are None or empty, and numbers that are not finite, are left out; the latter with a
    note that names them."""
    parts = {
        "loglik": loglik,
        "objective": objective,
        "imputation": imputation,
        "sampler": sampler,
        "truth": truth,
        "conditionals": conditionals,
    }
    report: dict[str, Any] = {"format": FORMAT, "rows": rows, **_clean(parts)}
    all_notes = [*notes, *(f"{path} is not finite and is left out" for path in not_finite(parts))]
    if objective is not None:
        all_notes.append("objective is the fine-tuned VGI objective; it is no likelihood and not comparable with one")
    if all_notes:
        report["notes"] = all_notes
    return report


def _clean(value: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, Mapping):
            item = _clean(item)
            if not item:
                continue
        if item is None or (isinstance(item, float) and not math.isfinite(item)):
            continue
        out[key] = item
    return out


def not_finite(parts: Mapping[str, Any]) -> dict[str, float]:
    """What `make_report` leaves out of its parts: the numbers that are not finite, by their dotted paths."""
    return {path: item for path, item in _leaves(parts) if isinstance(item, float) and not math.isfinite(item)}


def not_known(parts: Mapping[str, Any]) -> dict[str, float]:
    """The standard errors in parts of a report that are not known, of one row, by their dotted paths: NaN."""
    return {path: math.nan for path, item in _leaves(parts) if item is None and path.rpartition(".")[2] == "se"}


def _leaves(parts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """What stands in parts of a report, by dotted paths."""
    for key, item in parts.items():
        if isinstance(item, Mapping):
            yield from _leaves(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item


def markdown(report: Mapping[str, Any], title: str) -> str:
    """The report as Markdown."""
    lines = [f"# {title}", "", f"{report['rows']} row{'s' * (report['rows'] != 1)}."]
    if loglik := report.get("loglik"):
        lines += ["", "## Log-likelihood of the observed cells", "", *_loglik_table(loglik)]
        lines += ["", *_estimator_lines(loglik)]
    if "objective" in report:
        value = f"{report['objective']:.4f} (fine-tuned; not comparable with a log-likelihood)"
        lines += ["", "## VGI objective", "", value]
    if imputation := report.get("imputation"):
        lines += ["", "## Imputations", "", *_imputation_table(imputation)]
    if sampler := report.get("sampler"):
        lines += ["", "## Sampler", ""]
        lines += [f"- {key.replace('_', ' ')}: {_show(v)}" for key, v in sampler.items() if not isinstance(v, Mapping)]
    if truth := report.get("truth"):
        lines += ["", "## Distance from the truth", "", *truth_lines(truth)]
    if report.get("conditionals"):
        lines += ["", "## Conditionals", "", *conditional_lines(report["conditionals"])]
    if report.get("contest"):
        lines += ["", "## How the model was chosen", "", *_contest_lines(report["contest"])]
    if report.get("notes"):
        lines += ["", "## Notes", "", *(f"- {_line(note)}" for note in report["notes"])]
    return "\n".join(lines) + "\n"


def _contest_lines(contest: Mapping[str, Any]) -> list[str]:
    """The league table of the models that were compared before the fit."""
    decides = "hidden cells" if contest["score"] == "cells" else "the log-likelihood"
    calibrated = contest.get("calibrated")  # absent in runs of older versions, which tell another share
    share = f"in range of ten draws ({calibrated:.2f} if calibrated)" if calibrated else "coverage of 90 % intervals"
    lines = [
        f"By {decides}, on {contest['rows']} rows of the fitted table. `cells`: score of hidden cells (1: what the "
        "column alone would score; less is better); `log-likelihood`: of held-out rows, nats a row.",
        "",
        f"| model | cells | log-likelihood | {share} | weight | |",
        "|---|---|---|---|---|---|",
    ]
    for entry in contest["candidates"]:
        covered = f"{entry['coverage']:.2f}" if entry.get("coverage") is not None else ""
        mark = "chosen" if entry["chosen"] else f"not taken: {entry['against']}" if entry.get("against") else ""
        weight = f"{entry['weight']:.0%}" if entry.get("weight") is not None else ""
        scores = f"{entry['cells']:.4f} | {entry['loglik']:.3f} | {covered} | {weight}"
        lines.append(f"| {entry['title']} | {scores} | {mark} |")
    if any(entry.get("weight") for entry in contest["candidates"]):
        lines += ["", "Imputations are drawn in turn from refits of these models, by their `weight`."]
    return lines


def _loglik_table(loglik: Mapping[str, Any]) -> list[str]:
    keys = ("mean", "se", "standardised", "per_cell")
    lines = [
        "Nats a row (`per cell`: per observed cell). `standardised`: columns divided by their standard deviation.",
        "",
        "| rows | number | mean | standard error | standardised | per cell |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("all", "complete", "incomplete"):
        part = loglik if name == "all" else loglik.get(name)
        if part:
            cells = " | ".join(f"{part[key]:.4f}" if key in part else "" for key in keys)
            lines.append(f"| {name} | {part['rows']} | {cells} |")
    return lines


_ESTIMATORS = {
    "exact": "exact{rounded}",
    "annealed": "annealed importance sampling, {particles} particles a row: low on average",
    "iwae": "importance-weighted bound, {particles} draws of the latents a row: low on average",
}


_MEASURES = {
    "probability": "probability of a cell",
    "dequantised": "probability of a cell, as a density times the step to which it is rounded",
    "density": "density of a cell, data units",
    "mixed": "density of a cell, data units, but where values pile up the probability",
    "density_per_second": "density of a cell, per second",
}


def _names(columns: Sequence[str]) -> str:
    """The first columns by name, on one line."""
    more = len(columns) - SHOWN_COLUMNS
    return ", ".join(map(_line, columns[:SHOWN_COLUMNS])) + (f" and {more} more" if more > 0 else "")


def _line(text: str) -> str:
    """A text on one line: a name of a column may have line breaks, which end a bullet."""
    return " ".join(text.split())


def entering(schema: Schema) -> dict[str, list[str]]:
    """The `measures` of the columns, and those that are `carried` and so do not enter the log-likelihood, but for ids.
    Empty where all are numbers that enter, none of which piles up: then another run of the table has the same."""
    carried = [c.name for c in schema.columns if isinstance(c, Carried) and c.role in ("data", "exclude")]
    if not carried and not schema.layout.discrete and not any(column.unrounded for column in schema.encoded):
        return {}
    return measures(schema.encoded) | ({"carried": carried} if carried else {})


def units_of(columns: Sequence[ModelledColumn]) -> dict[str, str]:
    """In what the scores of dates and times are, by their columns: `days`, `seconds`."""
    return {column.name: f"{column.clock.measure}s" for column in columns if isinstance(column, Moment)}


def measures(columns: Sequence[ModelledColumn]) -> dict[str, list[str]]:
    """Which columns enter the log-likelihood by a probability and which by a density, by name: `probability` (levels),
    `dequantised` (rounded numbers: a density times the step), `density`, `mixed` (a density, but where values pile up a
    probability) and, of dates and times that are not rounded, `density_per_second`."""
    out: dict[str, list[str]] = {key: [] for key in _MEASURES}
    for column in columns:
        if all(column.level_counts):
            key = "probability"
        elif column.noisy and not column.unrounded:
            key = "dequantised"
        elif isinstance(column, Moment):
            key = "density_per_second"
        else:
            key = "mixed" if column.unrounded else "density"
        out[key].append(column.name)
    return {key: names for key, names in out.items() if names}


def _estimator_lines(loglik: Mapping[str, Any]) -> list[str]:
    rounded = " but for rounded columns" if "dequantisation_draws" in loglik else ""
    lines = ["- " + _ESTIMATORS[loglik["estimator"]].format(rounded=rounded, **loglik)]
    if loglik["estimator"] != "exact" and "ess" in loglik:
        lines.append(f"- mean effective sample size {loglik['ess']:.1f}")
    if "monte_carlo_se" in loglik:
        lines.append(f"- standard error of the estimation, for these rows: {loglik['monte_carlo_se']:.4f}")
    if loglik["estimator"] != "exact":
        if "half_budget" in loglik:
            lines.append(f"- mean at half the budget {loglik['half_budget']:.4f}")
        if "work" in loglik:
            spent = ", ".join(f"{part['rows']:,} of {part['evaluations']:,}" for part in loglik["work"])
            limited = f"{loglik['rows_at_limit']:,} reached the limit"
            lines.append(f"- rows by evaluations of the density: {spent}; {limited}")
    lines += [f"- {words}: {_names(loglik[key])}" for key, words in _MEASURES.items() if loglik.get(key)]
    if "carried" in loglik:
        lines.append(f"- not in the log-likelihood, as the run carries them: {_names(loglik['carried'])}")
        lines.append("- to be compared only with a run in whose log-likelihood the same columns are")
    if "sample" in loglik:
        s = loglik["sample"]
        lines.append(f"- rows scored {s['rows']:,} of {s['of']:,}, drawn at random (seed {s['seed']})")
    if "refit_epochs" in loglik:
        epochs = f"{loglik['refit_epochs']} epoch{'s' * (loglik['refit_epochs'] != 1)}"
        lines.append(f"- the encoder was fine-tuned to these rows for {epochs}, the decoder frozen")
    if "simulated" in loglik:
        s = loglik["simulated"]
        between = f"between {s['lower']:.4f} and {s['upper']:.4f} nats a row"
        lines.append(f"- how sure that is: of {s['rows']} rows simulated from the model it lies {between} (encoded)")
    if "dequantisation_draws" in loglik:
        draws = loglik["dequantisation_draws"]
        lines.append(f"- rounded columns: the mean density of {draws} places within the rounding (biased low)")
    if "rows_left_out" in loglik:
        count = loglik["rows_left_out"]
        lines.append(f"- {count} {'row is' if count == 1 else 'rows are'} left out: no cell of a modelled column")
    if "warning" in loglik:
        lines.append(f"- **warning**: {loglik['warning']}")
    return lines


ALONE = "alone"
NUMBERS = {"crps": "CRPS", ALONE: ALONE, "rmse": "RMSE", "mae": "MAE", "coverage90": "coverage"}
LEVELS = {"log_score": "log score", ALONE: ALONE, "brier": "Brier", "error": "error", "ece": "ECE", "rps": "RPS"}
"""Scores of numbers and of levels, and the heads of their columns; after the first what that is of the column alone."""
OPTIONAL = (ALONE, "rps")
"""Left out where no row has them."""


def _imputation_table(imputation: Mapping[str, Any]) -> list[str]:
    """A table of the numbers and one of the levels, each where there are such columns."""
    columns, kinds = imputation["columns"], imputation.get("kinds", {})
    levels = {name: own for name, own in columns.items() if "log_score" in own}
    numbers = {name: own for name, own in columns.items() if name not in levels}
    lines = []
    if numbers:
        lines += [
            "Columns in data units; `overall` is the mean over columns, each divided by its standard deviation.",
            *_unit_lines({name: unit for name, unit in imputation.get("units", {}).items() if name in numbers}),
            "Coverage is that of [min, max] of 19 draws: 90 % when calibrated.",
            *["Alone: the CRPS of draws from the observed cells of the same column, which use no other column."]
            * any("marginal" in own for own in numbers.values()),
            "",
            *_score_lines(
                NUMBERS, {"overall": _overall(imputation, numbers), **_by_kind(kinds, numbers=True), **numbers}
            ),
        ]
    if levels:
        lines += [""] * bool(numbers) + [
            "Columns of levels; `overall` is the mean over columns. Log score: -log of the share of the true level",
            f"among {COVERAGE_DRAWS} draws, one added to each level. Error: of the level drawn most often.",
            "ECE: expected calibration error.",
            *["Alone: the log score of draws from the observed cells of the same column."]
            * any("marginal" in own for own in levels.values()),
            *["RPS: ranked probability score, of ordered levels."] * any("rps" in own for own in levels.values()),
            "",
            *_score_lines(LEVELS, {"overall": _overall(imputation, levels), **_by_kind(kinds), **levels}),
        ]
    if "sliced_wasserstein" in imputation:
        lines += ["", f"Sliced Wasserstein distance of completed to true rows: {imputation['sliced_wasserstein']:.4f}"]
    return lines


def _by_kind(kinds: Mapping[str, Mapping[str, Any]], numbers: bool = False) -> dict[str, Mapping[str, Any]]:
    """The means of the columns of each kind of levels, or of numbers, where there are several such kinds."""
    own = {kind: part for kind, part in kinds.items() if ("log_score" in part) != numbers}
    return {f"overall, {kind}": part for kind, part in own.items()} if len(own) > 1 else {}


def _unit_lines(units: Mapping[str, str]) -> list[str]:
    """`Dates and times: born in days; clock, operated in seconds.`, where there are such."""
    of: dict[str, list[str]] = {}
    for name, unit in units.items():
        of.setdefault(unit, []).append(name)
    said = "; ".join(f"{_names(names)} in {unit}" for unit, names in of.items())
    return [f"Dates and times (but for coverage): {said}."] if said else []


def _overall(imputation: Mapping[str, Any], columns: Mapping[str, Any]) -> dict[str, Any]:
    return {**imputation, "cells": sum(column["cells"] for column in columns.values())}


def _score_lines(heads: Mapping[str, str], rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A table; the scores of ordered levels, and of columns alone, are left out where there are none."""
    first = next(iter(heads))
    rows = {
        name: {**own, ALONE: own["marginal"][first]} if first in own.get("marginal", {}) else own
        for name, own in rows.items()
    }
    shown = {
        key: head for key, head in heads.items() if key not in OPTIONAL or any(key in own for own in rows.values())
    }
    lines = [f"| column | cells | {' | '.join(shown.values())} |", "|---|---|" + "---|" * len(shown)]
    for name, own in rows.items():
        cells = " | ".join(f"{own[key]:.4g}" if key in own else "" for key in shown)
        lines.append(f"| {in_markdown(name)} | {own['cells']} | {cells} |")
    return lines


def _show(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def truth_lines(truth: Mapping[str, Any]) -> list[str]:
    """The `truth` object as lines."""
    lines = [f"Truth: {truth['model']}. `standardised`: columns divided by their standard deviation.", ""]
    if "kl" in truth:
        exact = truth["kl_estimator"] == "exact"
        se = f" (standard error {truth['kl_se']:.2g})" if "kl_se" in truth else ""
        how = "closed form" if exact else f"Monte Carlo, {truth['samples']} rows of the truth"
        lines.append(f"- KL(truth ‖ model): {truth['kl']:.5g} nats{se}, {how}")
    if w2 := truth.get("wasserstein2_squared"):
        lines.append(f"- squared 2-Wasserstein distance: {_units(w2)}")
    if sliced := truth.get("sliced_wasserstein"):
        shown = ", ".join(f"{name} {value:.4g}" for name, value in sliced.items())
        lines.append(f"- sliced 1-Wasserstein distance: {shown} (`noise`: between two samples of the truth)")
    for name, error in truth.get("rmse", {}).items():
        rotated = ", after the best rotation" if name == "F" else ""
        shown = _units(error) if isinstance(error, Mapping) else f"{error:.5g}"
        lines.append(f"- RMSE of {name}{rotated}: {shown}")
    return lines


def _units(values: Mapping[str, float]) -> str:
    names = {"standardised": "standardised", "data": "data units"}
    return ", ".join(f"{names[key]} {value:.5g}" for key, value in values.items())


def conditional_lines(part: Mapping[str, Any]) -> list[str]:
    """The `conditionals` object as lines: one table, overall first; another one of the truth's."""
    filled = f", holes filled by sampler {part['sampler']}" if "sampler" in part else ""
    lines = [
        f"Each fitted q(column | rest) against the model's own p(column | rest) on {part['rows']} rows{filled}, "
        f"{part['estimator']}.",
        "KL(q ‖ p) in nats, 2-Wasserstein distance in encoded units; median and 90 % quantile over rows.",
        *_distance_table(part),
    ]
    if "left_out" in part:
        names = _names(part["left_out"])
        lines += ["", f"Left out, as without a hole in the fit no conditional is trained: {names}."]
    if "ess" in part:
        ess = part["ess"]
        lines += ["", f"Effective draws of the latents: median {ess['median']:.4g}, 10 % {ess['q10']:.4g}."]
    if "warning" in part:
        lines += ["", f"**warning**: {part['warning']}"]
    if "truth" in part:
        how = f"on the same rows, {part['truth']['estimator']}."
        lines += ["", f"The same q against the truth's p(column | rest), KL(q ‖ truth): {how}"]
        lines += _distance_table(part["truth"])
    return lines


def _distance_table(part: Mapping[str, Any]) -> list[str]:
    """KL and Wasserstein distance of conditionals, overall first."""
    lines = [
        "",
        "| column | KL median | KL 90 % | Wasserstein median | Wasserstein 90 % |",
        "|---|---|---|---|---|",
    ]
    for name, column in {"overall": part, **part.get("columns", {})}.items():
        numbers = [column.get(what, {}).get(key) for what in ("kl", "wasserstein") for key in ("median", "q90")]
        cells = " | ".join("" if number is None else f"{number:.4g}" for number in numbers)
        lines.append(f"| {in_markdown(name)} | {cells} |")
    return lines


LOW_ACCEPTANCE = 0.2
LONG_MEMORY = 0.3
MANY_EXTENDED = 0.5
MANY_APART = 0.1
LONGER = "a longer fit helps, unless the model has learnt its rows by heart (`vgi evaluate` of other rows tells)"


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
                f"'{worst}', {low[worst]:.0%} of the proposals are accepted): {LONGER}"
            )
    memory = diagnostics.get("memory")
    if isinstance(memory, float) and memory > LONG_MEMORY:
        out.append(
            f"draws may still depend on where their chains started (correlation {memory:.2f} between their states at "
            f"half-time and at the end): {LONGER}"
        )
    apart = diagnostics.get("apart_by_holes")
    if isinstance(apart, Mapping):
        far = {int(holes): share for holes, share in apart.items() if share > MANY_APART}
        if far:
            worst = max(far, key=lambda holes: far[holes])
            out.append(
                f"chains of rows with {min(far)} or more holes do not forget where they start: of pairs with the same "
                f"random numbers {far[worst]:.0%} stay apart ({worst} holes); fills there may miss values that go "
                f"together: {LONGER}"
            )
    extended = diagnostics.get("extended")
    if isinstance(extended, float) and extended > MANY_EXTENDED:
        out.append(f"{extended:.0%} of the chains were made longer, as few proposals were accepted")
    return out
