"""Log-likelihood of the observed cells of a table under a run, the encoder of a model with latents fine-tuned first."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from vgi_cli.evaluation.likelihood import Budget
from vgi_cli.evaluation.loglik import LogLik
from vgi_cli.evaluation.refit import refit_encoder
from vgi_cli.evaluation.units import Encoded, data_log_prob
from vgi_cli.run.load import Fitted
from vgi_cli.run.prepare import rows_of
from vgi_cli.run.reporting import Reporter
from vgi_cli.table.encoder import log_volume
from vgi_cli.table.reader import Table

DEQUANTISATION_DRAWS = 8


def log_likelihood(
    fitted: Fitted,
    table: Table,
    seed: int,
    device: torch.device,
    samples: int | None,
    refit: int | None,
    reporter: Reporter,
) -> tuple[LogLik, int | None]:
    """log p(observed cells) of each row, nats, data units; epochs for which the encoder was fine-tuned.

    samples  draws of the importance-weighted bound of a model with latents; none: those of `Budget`
    refit    epochs of fine-tuning its encoder; none: while they help
    """
    if fitted.empty:
        return LogLik(torch.zeros(table.N, dtype=torch.float64), "exact"), None
    rounded = any(column.dequantise for column in fitted.schema.encoded)
    model = fitted.model.to(device)
    if fitted.marginal:
        model = copy.deepcopy(model).double()
    dtype = next(model.parameters()).dtype
    draws, missing = [], None
    for number in range(DEQUANTISATION_DRAWS if rounded else 1):
        rows = rows_of(table, fitted.schema, seed, draw=number)
        missing = rows.table.missing
        volume = log_volume(missing, rows.table.x, fitted.schema)
        draws.append(Encoded(rows.table.x.to(device, dtype), volume.to(device)))
    assert missing is not None
    proposals: Any = None
    refit_epochs = None
    if fitted.latent:
        proposals, refit_epochs = _refit(model, draws[0].x, missing.to(device), seed, refit, reporter)
    elif not fitted.marginal and fitted.conditionals is not None:
        proposals = fitted.conditionals.to(device)
    budget = Budget() if samples is None else Budget(latents=samples)
    loglik = data_log_prob(
        model,
        proposals,
        draws,
        missing.to(device),
        budget=budget,
        seed=seed,
        progress=lambda done: reporter.progress("log-likelihood", done),
    )
    reporter.finish_progress()
    absent = missing.all(1)
    values = torch.where(absent, 0.0, loglik.values.cpu())
    return loglik._replace(
        values=values,
        ess=None if loglik.ess is None else loglik.ess.cpu(),
        half_budget=None if loglik.half_budget is None else loglik.half_budget.cpu(),
    ), refit_epochs


def _refit(
    model: Any, x: Tensor, missing: Tensor, seed: int, epochs: int | None, reporter: Reporter
) -> tuple[Any, int]:
    """The proposal of the importance-weighted bound, its encoder fine-tuned to the rows, and for how many epochs."""
    refit = refit_encoder(
        model,
        x,
        missing,
        epochs=epochs,
        seed=seed,
        progress=lambda done: reporter.progress("fine-tuning the encoder", done),
    )
    reporter.finish_progress()
    done = f"{refit.epochs} epoch{'s' * (refit.epochs != 1)}"
    reporter.detail(f"encoder fine-tuned for {done}: ELBO {refit.before:.4f} -> {refit.after:.4f} (encoded units)")
    return refit.proposal, refit.epochs
