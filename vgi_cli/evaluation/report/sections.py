"""The report's sections on a known truth and on the conditionals, as Markdown. What is absent is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def truth_lines(truth: Mapping[str, Any]) -> list[str]:
    """The `truth` object as lines."""
    lines = [f"Truth: {truth['model']}. `standardised`: columns divided by their standard deviation.", ""]
    if "kl" in truth:
        exact = truth["kl_estimator"] == "exact"
        se = f" (standard error {truth['kl_se']:.2g})" if "kl_se" in truth else ""
        how = "closed form" if exact else f"Monte Carlo, {truth['samples']} rows of the truth"
        lines.append(f"- KL(truth ‖ model): {truth['kl']:.5g} nats{se}, {how}")
    w2 = truth.get("wasserstein2_squared")
    if w2:
        lines.append(f"- squared 2-Wasserstein distance: {_units(w2)}")
    sliced = truth.get("sliced_wasserstein")
    if sliced:
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
    """The `conditionals` object as lines: one table, overall first."""
    filled = f", holes filled by sampler {part['sampler']}" if "sampler" in part else ""
    lines = [
        f"Each fitted q(column | rest) against the model's own p(column | rest) on {part['rows']} rows{filled}, "
        f"{part['estimator']}.",
        "KL(q ‖ p) in nats, 2-Wasserstein distance in encoded units; median and 90 % quantile over rows.",
        "",
        "| column | KL median | KL 90 % | Wasserstein median | Wasserstein 90 % |",
        "|---|---|---|---|---|",
    ]
    for name, column in {"overall": part, **part.get("columns", {})}.items():
        numbers = [column.get(what, {}).get(key) for what in ("kl", "wasserstein") for key in ("median", "q90")]
        cells = " | ".join("" if number is None else f"{number:.4g}" for number in numbers)
        lines.append(f"| {name} | {cells} |")
    if "left_out" in part:
        lines += [
            "",
            f"Left out, as without a hole in the fit no conditional is trained: {', '.join(part['left_out'])}.",
        ]
    if "ess" in part:
        lines += [
            "",
            f"Effective draws of the latents: median {part['ess']['median']:.4g}, 10 % {part['ess']['q10']:.4g}.",
        ]
    if "warning" in part:
        lines += ["", f"**warning**: {part['warning']}"]
    return lines
