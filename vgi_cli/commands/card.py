"""The model card of a run, `README.md`: what was fitted on what, by what and why, how well as far as that is known, its
limits, and how to use it. A pure function of the run and the table: no clock, no machine."""

from __future__ import annotations

import dataclasses
import functools
import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import in_markdown, readable
from vgi_cli.commands.holdout import in_words
from vgi_cli.encoding.groups import Ranked, repeated
from vgi_cli.encoding.kinds import Taken, kinds_of
from vgi_cli.fitting.averaging import averaged, turns
from vgi_cli.registry import names as registry
from vgi_cli.reporting import Reporter
from vgi_cli.runs.folder import CARD, RunFolder
from vgi_cli.runs.manifest import Record
from vgi_cli.runs.store import SCHEMA, RunStore
from vgi_cli.settings.recipe import Recipe
from vgi_cli.table.base import Table

MOST_COLUMNS = 100
"""Columns that have a line each; of more, those with the most holes."""
UNMODELLED = ("carried", "constant", "empty")
"""Kinds of columns that the model does not describe."""
NUMBERS = {
    "cells": "error on hidden cells",
    "loglik": "nats a row",
    "coverage": "share in the range of ten draws",
    "weight": "share of the imputations",
}
"""Columns of the contest's table: scores of `contest.json`, in words; and ..."""
AGAINST = "why it is not taken, whatever its scores"


def write_card(run: RunFolder, table: Table, reporter: Reporter) -> None:
    """Write the card of a run that has ended, unless somebody has written into the one that is there. The run is whole
    without it: where it cannot be written, a warning says so."""
    try:
        if not run.keep_card(Card(run, table).text()):
            reporter.say(f"{run.path / CARD} was changed by hand and stays as it is")
    except OSError as error:
        reporter.warn(f"the run is saved, but {CARD} cannot be written: {error.strerror}")


@dataclasses.dataclass(frozen=True)
class Card:
    """A run, and the table that it was fitted or fine-tuned to."""

    run: RunStore
    table: Table

    @property
    def record(self) -> Record:
        """What the run says of itself."""
        return self.run.record

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The settings of the run."""
        return self.run.recipe()

    def text(self) -> str:
        """Markdown."""
        name = PurePath(self.run.address or self.run.name).name  # the path may be `.`
        title = "Fine-tuned run" if self.record.command == "finetune" else "Run"
        parts = [
            f"# {title} `{name}`",
            self._summary(),
            "## Use\n\n" + self._use(name),
            "## Data\n\n" + self._data(),
            "## Model and method\n\n" + self._model(),
            *self._contest(),
            "## How good it is\n\n" + self._scores(),
            "## Limits\n\n" + _bullets(self._limits()),
            "## Settings that were said or chosen\n\n" + self._settings(),
            "## Versions\n\n" + ", ".join(f"{name} {of}" for name, of in sorted(self.record.versions.items())),
            "## Licence\n\nNot stated yet: whoever passes this run on fills in this line.",
        ]
        return "\n\n".join(parts) + "\n"

    def _summary(self) -> str:
        record = self.record
        ended = {
            "epochs": "came to its planned end",
            "converged": "converged",
            "early_stopping": "ended when held-out rows gained no more",
            "stop_after": "ended after the steps that were asked for",
            "time_limit": "was ended by its time limit",
        }.get(str(record.stopped_by), "ended")
        unit = "iteration" if record.method and record.method.startswith("em") else "epoch"
        count = record.epochs or 0
        what = "The conditionals were adapted" if record.command == "finetune" else "The fit"
        ended = f"and the work {ended}" if record.command == "finetune" else ended
        if record.command == "finetune" and not count:
            return (
                "Nothing was adapted: the model is that of an earlier run and knows the law of every hole. "
                f"Written by vgi {record.version}."
            )
        return f"{what} {ended}, after {count:,} {unit}{'s' * (count != 1)}. Written by vgi {record.version}."

    def _use(self, name: str) -> str:
        folder, plugins = shlex.quote(name), " --plugin FILE.py" * len(self.record.plugins)
        return "\n".join(
            [
                "```",
                f"vgi impute --checkpoint {folder}{plugins} --m 20 -o filled.csv",
                f"vgi evaluate --checkpoint {folder}{plugins} new.csv --json",
                f"vgi fit DATA --recipe {folder}/recipe.yaml{plugins} --out again",
                "```",
                "",
                "The first fills the holes of the table that was fitted (name another to fill that one), the second "
                "says how well the model explains new rows, the third repeats the fit.",
            ]
        )

    def _data(self) -> str:
        data, table = self.record.data, self.table
        kinds = self._kinds()
        missing = {kind.name: float(table.missing(kind.name).mean()) if table.N else 0.0 for kind in kinds}
        files = ", ".join("standard input" if path == "-" else f"`{PurePath(path).name}`" for path in data.paths)
        files = files or f"{data.label} (from memory)"
        mask = "" if data.mask is None else f", with the cells hidden that `{PurePath(data.mask).name}` hides"
        held = f", {data.rows_held_out:,} held out" if data.rows_held_out else ""
        head = (
            f"{files}{mask}: {data.rows:,} rows, of which {data.rows_fitted:,} were fitted{held}; {len(kinds):,} "
            f"columns. SHA-256 of the table: `{data.sha256}`."
        )
        weight = self.recipe.value("table.weight")
        if weight is not None and weight in self.table.names:
            head += f" Rows count in the likelihood by the column `{in_markdown(weight)}`."
        shown = kinds
        if len(kinds) > MOST_COLUMNS:
            worst = sorted(kinds, key=lambda kind: -missing[kind.name])[:MOST_COLUMNS]
            shown = [kind for kind in kinds if kind in worst]
            head += f" The {MOST_COLUMNS} columns with the most holes; all are in `schema.json`:"
        rows = [(kind.name, kind.kind, f"{missing[kind.name]:.1%}", kind.why) for kind in shown]
        return f"{head}\n\n{_table(('column', 'kind', 'missing', 'cells'), rows)}"

    @functools.cached_property
    def _schema(self) -> Schema:
        return Schema.from_json(self.run.text(SCHEMA))

    def _kinds(self) -> list[Taken]:
        """What each column was taken for; a table that was fine-tuned to may lack columns that are carried."""
        schema = self._schema
        there = tuple(column for column in schema.columns if column.name in self.table.names)
        said, weight = self.recipe.table.columns, self.recipe.table.weight
        return kinds_of(self.table, dataclasses.replace(schema, columns=there), said, weight)

    def _model(self) -> str:
        record, requested = self.record, self.record.requested
        if record.method is None:
            return "None: no column of the table varies. Holes of a constant column get its constant."
        model, method = registry.MODELS.get(record.model), registry.METHODS.get(record.method)
        lines = [
            f"Model `{record.model}`" + (f": {model.about}." if model else "."),
            f"Method `{record.method}`" + (f": {method.about}." if method else "."),
        ]
        if record.command == "finetune":
            adapted = "; its conditionals were adapted to this table" if record.epochs else ", for this table"
            lines.append(f"The model is that of an earlier run, unchanged{adapted}.")
        elif "model.name" in requested:
            lines.append("Why this model: it was asked for.")
        elif (contest := self.run.contest()) is not None:
            best = bool(contest["candidates"][0]["chosen"])
            lines.append(
                "Why this model: it did best in the comparison below."
                if best
                else "Why this model: of those that did about as well as the best in the comparison below, and have "
                "nothing else against them, it has the fewest parameters."
            )
        else:
            lines.append("Why this model: it is what vgi takes for such a table where nobody names one.")
        if record.command == "fit" and model and "method.name" not in requested:
            lines.append(f"Why this method: {model.traits.because}.")
        return "\n".join(lines)

    def _contest(self) -> list[str]:
        contest = self.run.contest()
        if contest is None:
            return []
        decided = "how well hidden cells were filled" if contest["score"] == "cells" else "the log-likelihood of rows"
        rows = [
            (
                candidate["title"] + (" **(taken)**" if candidate["chosen"] else ""),
                *(_number(candidate.get(key)) for key in NUMBERS),
                candidate.get("against") or "",
            )
            for candidate in contest["candidates"]
        ]
        about = f"Fitted to {contest['rows']:,} rows and compared by {decided}, best first; details: `contest.json`."
        return [f"## Models that were compared\n\n{about}\n\n{_table(('model', *NUMBERS.values(), AGAINST), rows)}"]

    def _scores(self) -> str:
        record, found = self.record, []
        progress, contest = record.progress, self.run.contest()
        if progress is not None and progress.best_score is not None and progress.validated:
            what = "objective after fine-tuning" if self.recipe.select == "objective" else "log-likelihood"
            unit = "encoded units, not comparable with a likelihood" if what.startswith("obj") else "nats a row"
            found.append(
                f"Held-out rows, {what}: {progress.best_score:.6g} ({unit}), after epoch {progress.best_epoch}, which "
                "was kept by it."
            )
        taken: dict[str, Any] = next((one for one in contest["candidates"] if one["chosen"]), {}) if contest else {}
        if taken.get("loglik") is not None:
            found.append(
                f"In the comparison, log-likelihood of the observed cells of rows that were not fitted: "
                f"{taken['loglik']:.6g} nats a row, in the units of the data."
            )
        if (held := self.run.holdout()) is not None:
            scores = in_words(held)
            found.append(
                f"{scores[:1].upper()}{scores[1:]} ({held['scored_cells']:,} cells that a first fit had not seen; "
                "`holdout.json`)."
            )
        last = self.run.last_metrics() if record.command == "fit" and record.method is not None else {}
        if last.get("loglik") is not None:
            found.append(
                f"Log-likelihood of the fitted rows at the end: {last['loglik']:.6g} nats a row in encoded units. It "
                "says nothing of other rows, and is not comparable with other tables."
            )
        if record.finetuned_objective:
            found.append(f"Objective of the fine-tuning: {record.finetuned_objective['value']:.6g} (its own units).")
        found.append("`vgi evaluate` measures more, on rows that the fit has not seen.")
        return _bullets(found)

    def _limits(self) -> Iterable[str]:
        record = self.record
        yield (
            "Holes are taken to be ignorable (missing at random): whether a cell is missing may depend on what is "
            "observed in its row, not on the missing value itself. Nothing in the data can show that this holds."
        )
        left = [kind.name for kind in self._kinds() if kind.kind in UNMODELLED]
        if left:
            named = ", ".join(f"`{in_markdown(name)}`" for name in left[:10])
            more = f" and {len(left) - 10} more" if len(left) > 10 else ""
            yield (
                f"Not modelled: {named}{more}. They neither predict nor are predicted; constants are filled with "
                "themselves."
            )
        if record.method is not None:
            yield self._uncertainty()
        for line in repeated(Ranked(self.table, self._schema, self.recipe.table.columns)):
            yield f"{line[:1].upper()}{line[1:]}."
        if record.time_limit.get("ended_early"):
            yield f"A time limit ended early: {', '.join(record.time_limit['ended_early'])}."
        if record.method is not None and record.epochs == 0 and record.command == "fit":
            yield "Training did not get through one epoch: do not use this run."
        yield (
            "A model describes the rows that it was fitted to. Rows from elsewhere, and values far outside what was "
            "observed, are described by what it makes of them."
        )

    def _uncertainty(self) -> str:
        record = self.record
        if not record.bootstrap:
            return (
                "Fills do not carry the uncertainty of the model's parameters: standard errors from them are too "
                "small. They carry the uncertainty of the missing cells given the model."
            )
        by = f" by `{record.bootstrap_by}`" if record.bootstrap_by else ""
        how = "posterior draws" if self.recipe.uncertainty == "posterior" else "fits to resampled rows"
        unsettled = f"; {record.bootstrap_unsettled} of them had not settled" if record.bootstrap_unsettled else ""
        members = averaged(self.recipe)
        models = len(set(turns([member.weight for member in members], record.bootstrap))) if members else 1
        return (
            f"Fills carry the uncertainty of the missing cells and of the model's parameters, by {record.bootstrap} "
            f"{how}{by}{unsettled}. "
            + (
                f"They carry some doubt about the model, for these are fits of {models} models."
                if models > 1
                else "They do not carry the doubt about the model itself."
            )
        )

    def _settings(self) -> str:
        record = self.record
        rows = [(f"`{key}`", _value(value), "said") for key, value in record.requested.items()]
        rows += [
            (f"`{key}`", _value(value), "chosen")
            for key, value in readable(record.chosen).items()
            if key not in record.requested
        ]
        if not rows:
            return "None: `recipe.yaml` has the defaults."
        seeds = ", ".join(f"{name} {seed}" for name, seed in sorted(record.seeds.items()))
        return (
            f"Everything else is as it comes; `recipe.yaml` has all of it. Seeds: {seeds}.\n\n"
            f"{_table(('setting', 'value', 'by'), rows)}"
        )


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}"


def _value(value: Any) -> str:
    """As it stands in JSON, shortened."""
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text if len(text) <= 80 else text[:79] + '…'}`"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(in_markdown(str(cell)) for cell in line) + " |" for line in lines)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
