"""What a command is asked for, one value for each: the command line and the Python API make it from the table of
options, and `carry_out` does it.

`carry_out` refuses first what it can before torch is loaded: files that are not there, folders that are no run, outputs
that exist. Each of these checks is one that the command's own body makes again, where the rest is known: here it costs
no seconds.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from vgi_cli.errors import UsageError, nearest
from vgi_cli.evaluation.fail_if import Condition, parse
from vgi_cli.fitting import tensorboard
from vgi_cli.machine.launch import BY_ITSELF, Launch
from vgi_cli.ranges import MECHANISMS, MOST_IMPUTATIONS, MOST_ROWS
from vgi_cli.registry import names as registry
from vgi_cli.registry.plugins import plugged
from vgi_cli.reporting import Reporter
from vgi_cli.runs.files import require_writable
from vgi_cli.runs.folder import RunFolder, check_free
from vgi_cli.runs.store import RunStore
from vgi_cli.settings.gather import gather, require_data
from vgi_cli.settings.options import Data, Frame, GivenOptions
from vgi_cli.settings.problems import Settings, is_whole, shown
from vgi_cli.table.addresses import is_address
from vgi_cli.table.folders import folder_asked, folder_paths, refuse_folders
from vgi_cli.table.inputs import Origin, require_files, stem_of
from vgi_cli.table.outputs import (
    OutputLayout,
    default_output,
    named_output,
    output_paths,
    refuse_existing,
    refuse_sources,
    refuse_type,
)
from vgi_cli.table.shard import Shard

if TYPE_CHECKING:
    from vgi_cli.commands.dry_run import DryRun, ImputePlan
    from vgi_cli.commands.evaluate.command import Report
    from vgi_cli.commands.evaluate.score import RowScores
    from vgi_cli.commands.hide import Trial
    from vgi_cli.fitting.fitted import FittedTable
    from vgi_cli.table.base import Table

LAYOUTS = ("files", "long", "mids-csv", "single")
POINTS = ("mean", "median", "mode")
UNCERTAINTY = ("auto", "bootstrap", "posterior", "none")
DRAWS = 5
"""Imputations of a hole, where nobody says how many."""
ELSEWHERE = "name a file in another folder with -o"
"""The hint where the folder of an output cannot be written."""
AVERAGED = 100
"""Draws of which a point estimate is made: its error is then half a percent above what infinitely many would leave."""
AVERAGED_CHAINS = 20
"""The same where each draw is the end of a Markov chain, which takes longer: two and a half percent."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What every command is asked for.

    settings  what was said of the keys of a recipe, the tables among them
    table     what stands in memory instead of the files of the setting `data`
    plugins   Python files; they are run
    out       where the result goes; None: the command's default
    force     whether an output that exists is replaced
    started   monotonic time at which the command began: a time limit counts from there
    """

    settings: Settings
    table: Table | None = None
    plugins: Sequence[str | Path] = ()
    out: str | None = None
    force: bool = False
    started: float = field(default_factory=time.monotonic)

    @property
    def folder(self) -> Path | None:
        """The result's place as a path."""
        if self.out is not None and is_address(self.out):
            raise UsageError(
                f"--out: '{self.out}' is an address; results are written to local files",
                "name a local one, and copy it there",
            )
        return None if self.out is None else Path(self.out)

    def said(self, key: str) -> Any:
        """What was said of a setting, else None."""
        return self.settings[key].value if key in self.settings else None

    def require_tables(self, more: Any = None) -> None:
        """InputError for files that are not there: of the table, of its mask, and one more (a number names none)."""
        require_files(self.said("data") or [])
        require_files([path for path in (self.said("mask"), more) if isinstance(path, str)])


@dataclass(frozen=True, kw_only=True)
class FitRequest(Request):
    """What `vgi fit` is asked for; `resume`: to go on with the run in `out`; `dry_run`: only to say what would
    be done; `tensorboard`: a folder for metrics; `max_memory`: most bytes that the fit may take;
    `keep_encoded`: whether the run keeps the encoded rows of a table in files; `launch`: with which processes this one
    shares the fit."""

    resume: bool = False
    dry_run: bool = False
    tensorboard: str | None = None
    max_memory: int | None = None
    keep_encoded: bool = False
    launch: Launch = BY_ITSELF

    def look(self, reporter: Reporter) -> DryRun:
        """What a fit would take the columns for; nothing is written."""
        if self.resume:
            raise UsageError("--dry-run and --resume exclude each other", "a run has its kinds in schema.json")
        with plugged(self.plugins):
            if self.table is None:
                require_data(self.settings)
            self.require_tables(self.said("val"))
            from vgi_cli.commands.fit import dry_run

            return dry_run(self, reporter)

    def carry_out(self, reporter: Reporter) -> RunFolder:
        """Fit and return the run folder."""
        if self.resume and self.force:
            raise UsageError("--resume and --force exclude each other", "--resume continues a run, --force replaces it")
        tensorboard.require(self.tensorboard)
        if not self.plugins:
            model, method = (self._name(section) for section in ("model", "method"))
            registry.check_names(model, method)
        with plugged(self.plugins):
            if not self.resume:
                if self.table is None:
                    require_data(self.settings)
                check_free(self.folder, self.force)
            self.require_tables(self.said("val"))
            from vgi_cli.commands.fit import fit

            return fit(self, reporter)

    def _name(self, section: str) -> str | None:
        """The model or method that was named outside a recipe."""
        setting = self.settings.get(f"{section}.name")
        return setting.value if setting is not None and setting.origin in (section, f"--{section}") else None


def _refuse_safe_in_memory(safe_cells: bool) -> None:
    if safe_cells:
        raise UsageError("--safe-cells is for CSV files, and none is written", "name one with out=")


@dataclass(frozen=True, kw_only=True)
class HideRequest(Request):
    """What `vgi hide` is asked for.

    mechanism  of MECHANISMS
    rate       share of the observed cells of a column to hide
    only       the columns that lose cells; empty: all that are modelled
    safe_cells  whether no cell of CSV can be taken for a formula
    """

    mechanism: str = "mcar"
    rate: float = 0.3
    only: Sequence[str] = ()
    safe_cells: bool = False

    @property
    def place(self) -> Path:
        """The folder of the trial. UsageError where none was named, or a file is there."""
        if self.folder is None or self.out == "-":
            raise UsageError("hide writes several files: it needs -o FOLDER", "for example -o trial")
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"--out: '{self.folder}' is a file", "name a folder")
        return self.folder

    def carry_out(self, reporter: Reporter) -> list[Path]:
        """Write the trial and return the paths of table, mask and truth."""
        self._check()
        if not self.force and self.place.exists() and any(self.place.iterdir()):
            raise UsageError(f"--out: '{self.place}' holds files", "--force writes among them, another -o elsewhere")
        self._require()
        from vgi_cli.commands.hide import hide_cells

        return hide_cells(self, reporter)

    def frames(self, reporter: Reporter, arrow: bool) -> Trial:
        """The trial in memory, of pandas or `arrow`."""
        self._check()
        self._require()
        _refuse_safe_in_memory(self.safe_cells)
        from vgi_cli.commands.hide import hide_frames

        return hide_frames(self, reporter, arrow)

    def _require(self) -> None:
        if self.table is None:
            require_data(self.settings, "hide")
        self.require_tables()

    def _check(self) -> None:
        """UsageError for a rule or a rate that cannot be."""
        if self.mechanism not in MECHANISMS:
            raise UsageError(
                f"--mechanism: expected {', '.join(MECHANISMS[:-1])} or {MECHANISMS[-1]}, got '{self.mechanism}'",
                nearest(self.mechanism, MECHANISMS),
            )
        real = isinstance(self.rate, int | float)
        if not real or not 0 < self.rate < 1:
            got = f"{self.rate:g}" if real else shown(self.rate)
            raise UsageError(f"--rate: expected a share above 0 and below 1, got {got}", "for example 0.3")


@dataclass(frozen=True, kw_only=True)
class RunRequest(Request):
    """What is asked of a run that was fitted: `checkpoint`, a folder or what this process has in memory."""

    checkpoint: Path | RunStore

    def open(self, verify: bool = False) -> RunStore:
        """The run; `verify`: after comparing its files with their hashes. RunError where there is none that can be
        used."""
        at = self.checkpoint
        run = at if isinstance(at, RunStore) else RunFolder.open(at, verify)
        run.require_model()
        return run

    def beside(self, name: str) -> Path:
        """Where an output of the run lies that nobody named a place for. UsageError for a run without a folder."""
        if isinstance(self.checkpoint, RunStore):
            raise UsageError(f"a run in memory has no folder for {name}", "say where: out=…")
        return self.checkpoint / name


@dataclass(frozen=True, kw_only=True)
class FinetuneRequest(RunRequest):
    """What `vgi finetune` is asked for; `tensorboard`: a folder for metrics."""

    tensorboard: str | None = None

    def carry_out(self, reporter: Reporter) -> RunFolder:
        """Fine-tune and return the new run folder."""
        tensorboard.require(self.tensorboard)
        with plugged(self.plugins):
            check_free(self.folder, self.force, resumes=False)
            self.open()
            self.require_tables()
            from vgi_cli.commands.finetune import finetune

            return finetune(self, reporter)


@dataclass(frozen=True, kw_only=True)
class ImputeRequest(RunRequest):
    """What `vgi impute` is asked for.

    m            draws of a hole; None: as `with_draws` says
    format       of LAYOUTS; None: what the rest leaves
    point        of POINTS: one table of point estimates
    original     whether the long table begins with the table with its holes
    strict       refuse a table in which holes would stay
    delta        shifts of the fills, as `age=+0.5sd`: see columns/deltas.py
    leave_blank  holes that stay, as `cigarettes:smoker=no`: see columns/blanks.py
    shard        which rows are filled, as `2/3`; None: all
    safe_cells   whether no cell of CSV can be taken for a formula
    max_memory   most bytes that the command may take
    """

    m: int | None = None
    format: str | None = None
    point: str | None = None
    sampler: str = "auto"
    uncertainty: str = "auto"
    original: bool = True
    strict: bool = False
    delta: Sequence[str] | None = None
    leave_blank: Sequence[str] | None = None
    shard: str | None = None
    safe_cells: bool = False
    max_memory: int | None = None

    @property
    def part(self) -> Shard | None:
        """The shard. UsageError where it means nothing."""
        return None if self.shard is None else Shard.parse(self.shard)

    def carry_out(self, reporter: Reporter) -> list[Path]:
        """Write the completed tables and return their paths: none where they went to stdout."""
        request = self.checked()
        with plugged(self.plugins):
            request._refuse_outputs()
            from vgi_cli.commands.impute import impute

            return impute(request, reporter)

    def look(self, reporter: Reporter) -> ImputePlan:
        """What would be filled, how, and which files would be written; nothing is."""
        request = self.checked()
        with plugged(self.plugins):
            request._refuse_outputs()
            from vgi_cli.commands.impute import dry_run

            return dry_run(request, reporter)

    def frames(self, reporter: Reporter, arrow: bool) -> list[Frame] | Frame:
        """The completed tables in memory, of pandas or `arrow`."""
        request = self.checked(in_memory=True)
        with plugged(self.plugins):
            from vgi_cli.commands.impute import impute_frames

            return impute_frames(request, reporter, arrow)

    def checked(self, in_memory: bool = False) -> ImputeRequest:
        """With its defaults filled in, but for the number of draws (see `with_draws`). UsageError for what cannot be,
        before anything is read."""
        for name, value, known in (
            ("--format", self.format, LAYOUTS),
            ("--point", self.point, POINTS),
            ("--uncertainty", self.uncertainty, UNCERTAINTY),
        ):
            if value is not None and value not in known:
                raise UsageError(
                    f"{name}: expected {', '.join(known[:-1])} or {known[-1]}, got '{value}'", nearest(value, known)
                )
        if self.m is not None and not (is_whole(self.m) and 1 <= self.m <= MOST_IMPUTATIONS):
            raise UsageError(
                f"--m: expected a whole number from 1 to {MOST_IMPUTATIONS}, got {shown(self.m)}", "for example --m 5"
            )
        stdin = self.said("data") == ["-"]
        to_stdout = not in_memory and (self.out == "-" or (self.out is None and stdin))
        layout = self.format
        if self.point is not None:
            if layout not in (None, "single"):
                raise UsageError(f"--point gives one table, --format {layout} several", "leave out --format")
            layout = "single"
        if in_memory:
            _refuse_safe_in_memory(self.safe_cells)
        if layout == "mids-csv" and in_memory:
            raise UsageError("--format mids-csv is a file", "name it with out=, or take format='long'")
        layout = layout or ("single" if to_stdout else "files")
        if in_memory and self.max_memory is not None:
            raise UsageError("max_memory holds for tables that are written to files", "name one with out=")
        if to_stdout and layout == "files":
            raise UsageError(
                "--format files cannot go to stdout", "name a file with -o, or take --format long or single"
            )
        if layout == "single" and self.point is None and (self.m or 1) > 1:
            raise UsageError(
                f"--format single is one draw, --m {self.m} asks for more", "--point mean, or --format files or long"
            )
        if self.part is not None:
            if in_memory or self.table is not None:
                raise UsageError(
                    "--shard is of files that are imputed into files, not of tables in memory",
                    "name the files and out=, or see vgi_cli.impute_batches",
                )
            if to_stdout and layout != "single":
                raise UsageError(
                    f"--shard: of --format {layout} a shard is one file for each .imp, which cannot go to stdout",
                    "name a file with -o",
                )
        if not self.original and layout != "long":
            raise UsageError("--no-original belongs to --format long", "leave it out")
        draws = 1 if layout == "single" and self.point is None else self.m
        return dataclasses.replace(self, format=layout, m=draws, out="-" if to_stdout else self.out)

    def with_draws(self, fitted: FittedTable, reporter: Reporter) -> ImputeRequest:
        """With the number of draws where nobody said: DRAWS, for a point estimate AVERAGED or AVERAGED_CHAINS, and of
        stored chains no more than there are. UsageError for a sampler that the run cannot offer, or the mode of
        numbers."""
        if self.point == "mode" and not fitted.layout.discrete:
            raise UsageError(
                f"--point mode: run '{fitted.run.name}' has no column of levels; draws of a number have no mode",
                "--point mean or median",
            )
        sampler = fitted.sampler(self.sampler)
        if self.m is not None:
            return self
        traits = registry.SAMPLERS[sampler].traits
        usual = DRAWS
        if self.point is not None:
            usual = AVERAGED if traits.direct else AVERAGED_CHAINS
        chains = fitted.chains if traits.stored else usual
        if chains < usual:
            reporter.say(f"{chains} draw{'s' * (chains != 1)}, as many as the run keeps imputations of a row")
        return dataclasses.replace(self, m=min(chains, usual))

    def _refuse_outputs(self) -> None:
        """A run and tables that are not there, outputs that exist."""
        fitted = self.open().manifest.get("data", {}).get("paths") or []
        self.require_tables()
        named = self.said("data") or fitted
        if self.out == "-" or not named:
            return
        origin = Origin(*stem_of(named[0]))
        layout = cast(OutputLayout, self.format)
        out = self.folder or default_output(self.beside("imputed"), origin, layout)
        require_writable(out, ELSEWHERE)
        if folder_asked(self.out, named):
            paths = folder_paths(out, m=self.m or 1, layout=layout, shard=self.part)
            refuse_folders(paths, named, force=self.force)
            return
        if self.out is not None:
            out = named_output(self.out, origin, layout)
            require_writable(out, ELSEWHERE)
        paths = output_paths(out, origin, m=self.m or 1, layout=layout, shard=self.part, original=self.original)
        refuse_sources(paths, named, "the table that is imputed")
        if self.out is not None:
            refuse_type(out, layout)
        refuse_existing(paths, force=self.force)


@dataclass(frozen=True, kw_only=True)
class SampleRequest(RunRequest):
    """What `vgi sample` is asked for; n: rows, missing: whether they have the holes of fitted rows, leave_blank: as of
    `vgi impute`, safe_cells: whether no cell of CSV can be taken for a formula."""

    n: int = 1000
    missing: bool = False
    leave_blank: Sequence[str] | None = None
    safe_cells: bool = False

    def carry_out(self, reporter: Reporter) -> list[Path]:
        """Write the rows and return the file: none where they went to stdout."""
        self._require_count()
        with plugged(self.plugins):
            self.open()
            if self.folder is not None and self.out != "-":
                refuse_type(self.folder)
                refuse_existing([self.folder], force=self.force)
                require_writable(self.folder, ELSEWHERE)
            from vgi_cli.commands.sample import sample

            return sample(self, reporter)

    def frame(self, reporter: Reporter) -> Frame:
        """The rows as a pandas DataFrame."""
        self._require_count()
        _refuse_safe_in_memory(self.safe_cells)
        with plugged(self.plugins):
            from vgi_cli.commands.sample import sample_frame

            return sample_frame(self, reporter)

    def _require_count(self) -> None:
        if not (is_whole(self.n) and 1 <= self.n <= MOST_ROWS):
            raise UsageError(
                f"-n: expected a whole number from 1 to {MOST_ROWS:,}, got {shown(self.n)}", "for example -n 1000"
            )


@dataclass(frozen=True, kw_only=True)
class ScoringRequest(RunRequest):
    """What is asked of a log-likelihood that may have to be estimated.

    samples       draws of the latents of a row
    refit_epochs  epochs of fine-tuning of an encoder; None: while it helps
    by_content    whether what is random in the score of a row comes from its cells, and not from its number
    """

    samples: int | None = None
    refit_epochs: int | None = None
    by_content: bool = False

    @property
    def wanted(self) -> int | Literal["all"] | None:
        """How many rows to score where that is an estimate; None: the default."""
        return "all"


@dataclass(frozen=True, kw_only=True)
class ScoreRequest(ScoringRequest):
    """What `vgi score` is asked for; safe_cells: whether no cell of CSV can be taken for a formula."""

    safe_cells: bool = False

    def carry_out(self, reporter: Reporter) -> RowScores:
        """Score every row, and write the scores where `out` names a file."""
        with plugged(self.plugins):
            self.open()
            self.require_tables()
            if self.folder is not None and self.out != "-":
                refuse_type(self.folder)
                given = [*(self.said("data") or []), self.said("mask")]
                refuse_sources([self.folder], [path for path in given if path is not None], "read here")
                refuse_existing([self.folder], force=self.force)
                require_writable(self.folder, ELSEWHERE)
            from vgi_cli.commands.evaluate.score import score

            return score(self, reporter)


@dataclass(frozen=True, kw_only=True)
class EvaluateRequest(ScoringRequest):
    """What `vgi evaluate` is asked for.

    truth         the complete table, a path; `truth_table`: the same in memory
    truth_model   the law behind the data, a run or a JSON file
    conditionals  whether to compare the fitted conditionals with the model's own
    objective     whether to fine-tune and add the objective of VGI
    per_row       file for the log-likelihood of each row
    rows          rows that are scored where the likelihood has to be estimated: a number, or `all`
    fail_if       conditions on numbers of the report: refused early where the report will not have them
    json          whether the report itself is all that is wanted: no files without `out`
    max_memory    most bytes that the evaluation may take
    """

    truth: str | None = None
    truth_table: Table | None = None
    truth_model: str | None = None
    conditionals: bool = False
    objective: bool = False
    per_row: str | None = None
    rows: int | Literal["all"] | None = None
    fail_if: Sequence[str] = ()
    json: bool = False
    max_memory: int | None = None

    @property
    def wanted(self) -> int | Literal["all"] | None:
        """Every row where each has a line of a file, else what was said."""
        return "all" if self.rows is None and self.per_row is not None else self.rows

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What `fail_if` says. UsageError for what it cannot."""
        return tuple(parse(text) for text in self.fail_if)

    @property
    def write(self) -> bool:
        """Whether files are written."""
        return not self.json or self.out is not None

    def carry_out(self, reporter: Reporter) -> Report:
        """Evaluate and return the report."""
        _ = self.conditions  # refused before anything is looked at
        with plugged(self.plugins):
            self.open()
            self.require_tables(self.truth)
            self.refuse_outputs()
            from vgi_cli.commands.evaluate.command import evaluate

            return evaluate(self, reporter)

    def refuse_outputs(self) -> None:
        """UsageError for outputs that cannot be; a report in the run itself is numbered, so it can."""
        out = self.folder
        folder = self.beside("evaluations") if self.write and out is None else out
        paths = [] if out is None or not self.write else [out / "report.json", out / "report.md"]
        if self.per_row is not None:
            paths.append(Path(self.per_row))
            if not paths[-1].parent.is_dir():
                raise UsageError(f"--per-row: no folder '{paths[-1].parent}'", "create it first")
            refuse_type(paths[-1])
        if out is not None and out.exists() and not out.is_dir():
            raise UsageError(f"--out: '{out}' is a file", "name a folder")
        given = [*(self.said("data") or []), self.said("mask"), self.truth]
        refuse_sources(paths, [path for path in given if path is not None], "read here")
        for path in paths:
            if path.exists() and not self.force:
                other = "another -o DIR" if path.parent == out else "another --per-row"
                raise UsageError(f"'{path}' exists", f"--force replaces it, {other} writes elsewhere")
        if self.per_row is not None:
            require_writable(Path(self.per_row), "another --per-row writes elsewhere")
        if self.write and folder is not None:
            hint = "another -o DIR writes elsewhere, --json alone writes no file"
            require_writable(folder / "report.json", hint)


_Request = TypeVar("_Request", bound=Request)


def make_request(
    kind: type[_Request], said: GivenOptions, paths: list[str] | None, environ: Mapping[str, str], **more: Any
) -> _Request:
    """The request of a command. UsageError with every problem of its settings at once.

    paths  of the table; None: none were named
    more   what the request holds beside the options
    """
    flags = {"data": (paths, "DATA" if said.typed else "data"), **said.flags()}
    recipe = said.values.get("recipe")
    settings = gather(flags, said.values.get("set") or [], environ, None if recipe is None else Path(recipe))
    names = {each.name for each in dataclasses.fields(kind)} - more.keys()
    own = {name: value for name, value in said.values.items() if name in names and value is not None}
    return kind(settings=settings, **own, **more)


def check_rows(rows: int | Literal["all"] | None, example: int) -> None:
    """UsageError for a number of rows (`--rows`) that cannot be."""
    if rows is not None and rows != "all" and not (is_whole(rows) and rows >= 1):
        message = f"--rows: expected a whole number from 1, or all, got {shown(rows)}"
        raise UsageError(message, f"for example --rows {example}")


def source(data: Data | None, argument: str = "data") -> tuple[Table | None, list[str] | None]:
    """(table in memory, paths): one of them, or neither. UsageError that names the argument where it is neither."""
    from vgi_cli.table.frames import ArrowStream, exported, from_frame, is_frame

    if data is None:
        return None, None
    if is_frame(data):
        return from_frame(data), None
    if isinstance(data, ArrowStream) and (arrow := exported(data)) is not None:
        return from_frame(arrow), None
    if isinstance(data, str | Path):
        return None, [str(data)]
    paths = list(data) if isinstance(data, Iterable) and not isinstance(data, Mapping) else []
    if paths and all(isinstance(path, str | Path) for path in paths):
        return None, [str(path) for path in paths]
    raise UsageError(
        f"{argument}: expected paths, a pandas DataFrame or an Arrow table, got {type(data).__name__}",
        "pandas.DataFrame(…), .to_frame() or, of a LazyFrame, .collect() makes a table of it",
    )
