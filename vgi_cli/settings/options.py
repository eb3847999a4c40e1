"""The one table of options: what can be said to each command, on the command line and in Python.

The options of a command are the fields of a TypedDict. A field's name and type are those of the keyword in Python, so
that `**options: Unpack[FitOptions]` is a signature that type checkers and editors read; the `Option` beside the type
says what else there is to know: the flags, the help, where the value goes. From the same fields the command line is
made (cli/commands.py), and what `help()` shows of the Python functions (`shown_by_help`).

An option with a `key` is a setting of the recipe; another is a field of its name in the request (commands/requests.py).
Importing this loads neither torch nor a table's libraries.
"""  # annotations are read here, so this module does not postpone them

import csv
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, TypeVar, get_args, get_origin, get_type_hints

from vgi_cli.errors import UsageError, did_you_mean, nearest
from vgi_cli.fast import SWITCH
from vgi_cli.reporting import Progress

Frame: TypeAlias = Any
"""A pandas DataFrame or an Arrow table."""
Data: TypeAlias = str | Path | Iterable[str | Path] | Frame
HIDDEN_THERE = "hide the cells in the table itself, with `frame.where(mask == 1)`"
"""What a mask is for a table in memory."""
Plugins: TypeAlias = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Option:
    """What the table says of an option beside its name and its type in Python.

    help      its line in `--help`
    metavar   its value in `--help`; empty: a switch
    key       the setting of the recipe that it gives; None: it is a field of the request
    flag      where it is not the name (`--na-values` of `na_values`)
    short     a second flag, of one letter
    default   where it is not said; None: what the type has (see Field)
    parse     from what was typed (a list where the flag may be repeated) to the value
    accept    from what Python was given to the value; None: what the type has
    example   of a mapping, for the message where something else was given
    typed     whether it exists on the command line
    after     the option that comes before it in `--help`, where that is not the field above it
    """

    help: str = ""
    metavar: str = ""
    key: str | None = None
    flag: str | None = None
    short: str | None = None
    default: Any = None
    parse: Callable[[Any], Any] | None = None
    accept: Callable[[Any], Any] | None = None
    example: Mapping[str, Any] | None = None
    typed: bool = True
    after: str | None = None


@dataclass(frozen=True)
class Field:
    """An option with its name and its type in Python."""

    name: str
    kind: Any
    option: Option

    @property
    def flags(self) -> tuple[str, ...]:
        """How it is typed: the short flag first; empty: it exists in Python only."""
        flag = self.option.flag or f"--{self.name.replace('_', '-')}"
        return () if not self.option.typed else (flag,) if self.option.short is None else (self.option.short, flag)

    @property
    def repeated(self) -> bool:
        """Whether its flag may be typed several times: where the value is a sequence or a mapping."""
        kinds = (self.kind, *get_args(self.kind))
        return any(get_origin(kind) in (Sequence, Mapping) for kind in kinds)

    @property
    def default(self) -> Any:
        """What Python has where nothing is said."""
        if self.option.default is None and self.kind is bool:
            return False
        return () if self.option.default is None and get_origin(self.kind) is Sequence else self.option.default

    @property
    def typed(self) -> tuple[Any, Any]:
        """What is typed for it, and what the command line has where nothing is: a switch, texts, a number, a text."""
        if self.kind is Path:
            return Path, inspect.Parameter.empty
        if self.kind is bool:
            return bool, False
        if self.repeated:
            return list[str] | None, None
        if set(get_args(self.kind)) == {int, type(None)}:
            return int | None, None
        return (str, self.default) if isinstance(self.default, str) else (str | None, None)

    def accept(self, value: Any) -> Any:
        """The value of what Python was given; UsageError where it is something else."""
        if self.option.accept is not None:
            return self.option.accept(value)
        if Path in get_args(self.kind):
            if not isinstance(value, str | PathLike):
                hint = HIDDEN_THERE if self.name == "mask" else f"for example {self.name}='{self.name}'"
                raise UsageError(f"{self.name}: expected a path, got {type(value).__name__}", hint)
            return str(value)
        if self.kind == Sequence[str]:  # one text is one name, not its letters
            if not isinstance(value, Iterable):
                raise UsageError(f"{self.name}: expected a text or a list of texts, got {type(value).__name__}")
            return [value] if isinstance(value, str) else list(value)
        if self.option.example is not None and not isinstance(value, Mapping):
            found, example = type(value).__name__, f"for example {self.name}={self.option.example}"
            raise UsageError(f"{self.name}: expected a mapping, got {found}", example)
        return value if self.option.example is None else dict(value)


# --- values from what is typed, and from what Python is given ---


def _number(text: str) -> float | str:
    """A fraction as a number, anything else as the name of a file."""
    try:
        return float(text)
    except ValueError:
        return text


def _count(text: str) -> int | str:
    """A number of rows, or what was said instead."""
    return int(text) if text.isascii() and text.isdecimal() else text


def _real(flag: str, example: str = "0.3") -> Callable[[str], float]:
    """What reads the number after a flag. UsageError where it is none."""

    def read(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"{flag}: expected a number, got '{text}'", f"for example {flag} {example}") from None

    return read


def _mark(text: str) -> str:
    """The decimal mark after a flag. UsageError for what is none."""
    if text not in (".", ","):
        raise UsageError(f"--decimal: expected '.' or ',', got '{text}'", "for example --decimal ,")
    return text


def _share(said: str | float) -> float | str:
    """`5%` and `0.05` as a number, anything else as it was said."""
    text = str(said).strip()
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return said


_SIZES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def size(said: str | int) -> int:
    """Bytes from `2G`, `1.5GB`, `500M`, `2GiB`, or a number: G is 10^9, Gi 2^30. UsageError otherwise."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kmgt]?)(i?)b?\s*", str(said).lower())
    if found is None or (found[3] and not found[2]) or float(found[1]) <= 0:
        raise UsageError(f"max-memory: expected a size such as 2G or 500M, got '{said}'", "for example --max-memory 2G")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _SIZES[found[2]])


def _lists(items: list[str]) -> list[list[str]]:
    """Lists of names with commas between them (quoted as in CSV)."""
    try:
        return [[name.strip() for name in next(csv.reader([item], skipinitialspace=True), [])] for item in items]
    except csv.Error:  # a line break outside quotes
        raise UsageError(
            f"expected names with commas between them, got {', '.join(map(repr, items))}",
            "a name with a comma or a line break is written in quotes, as in CSV",
        ) from None


def _blocks(items: list[str]) -> list[list[str]] | str:
    """`auto`, or blocks of names."""
    return "auto" if items == ["auto"] else _lists(items)


def _bounds(items: list[str]) -> dict[str, str]:
    limits: dict[str, str] = {}
    for item in items:
        name, equals, text = item.rpartition("=")
        if not equals:
            raise UsageError(
                f"--bounds: expected COL=LOW:HIGH, COL=observed or COL=none, got '{item}'",
                "for example --bounds age=0:",
            )
        if limits.setdefault(name, text) != text:
            raise UsageError(f"--bounds {name}={limits[name]} disagrees with --bounds {item}", "drop one of them")
    return limits


def _kinds(items: list[str]) -> dict[str, str]:
    from vgi_cli.columns.schema import kind_words, parse_kind, split_kind  # loads numpy, which help does without

    kinds: dict[str, str] = {}
    for item in items:
        cut = split_kind(item)
        if cut is None:
            raise UsageError(
                f"--column: expected NAME=KIND with a kind of {', '.join(kind_words())}, got '{item}'",
                _kind_hint(item),
            )
        name, text = cut
        parse_kind(name, text)
        if kinds.setdefault(name, text) != text:
            raise UsageError(f"--column {name}={kinds[name]} disagrees with --column {item}", "drop one of them")
    return kinds


def _kind_hint(item: str) -> str:
    """What to do about `NAME=WORD` of which the word is no kind."""
    from vgi_cli.columns.schema import kind_meant

    words = [part.partition(":")[0] for part in item.split("=")[1:]]
    meant = next((kind for word in words if word and (kind := kind_meant(word))), None)
    return "for example --column age=integer" if meant is None else did_you_mean(meant)


def _groups(value: Sequence[Sequence[str]] | str) -> list[list[str]] | str:
    if not isinstance(value, str) and not (isinstance(value, Iterable) and all(isinstance(g, Iterable) for g in value)):
        found, example = type(value).__name__, "for example blocks=[['a', 'b']]"
        raise UsageError(f"blocks: expected lists of names, or auto, got {found}", example)
    return value if isinstance(value, str) else [list(group) for group in value]


def _kinds_of_trial(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        hint = "only=['a'] names the columns that lose cells; columns={'age': 'integer'} says what columns are"
        raise UsageError(f"columns: expected a mapping, got {type(value).__name__}", hint)
    return dict(value)


def _deltas(value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        found, example = type(value).__name__, "for example delta={'age': '+0.5sd'}"
        raise UsageError(f"delta: expected a mapping, got {found}", example)
    return [f"{name}={by}" for name, by in value.items()]


def _blanks(value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        found, example = type(value).__name__, "for example leave_blank={'cigarettes': 'smoker=no'}"
        raise UsageError(f"leave_blank: expected a mapping, got {found}", example)
    out = []
    for name, said in value.items():
        several = [said] if isinstance(said, str) else said
        if not isinstance(several, Sequence) or not all(isinstance(one, str) for one in several):
            example = "for example leave_blank={'income': ['age<18', 'age>70']}"
            raise UsageError(f"leave_blank: expected texts for '{name}', got {said!r}", example)
        out += [f"{name}:{one}" for one in several]
    return out


def as_files(value: Plugins) -> tuple[str | Path, ...]:
    """Plugins as a tuple of files; one path is one of them."""
    return (value,) if isinstance(value, str | Path) else tuple(value)


# --- what is said outside of any command ---

ENVIRONMENT = {
    "VGI_DEVICE": "device, where no flag says one",
    "VGI_THREADS": "threads, where no flag says how many",
    SWITCH: "0: no compiled loops",
    "OMP_NUM_THREADS": "most threads, where nobody says how many",
    "NO_COLOR": "anything: no colours (--color always takes some all the same)",
    "TERM": "dumb: plain lines, no panel",
    "NUMBA_CACHE_DIR": "where compiled loops are kept",
    "CUDA_VISIBLE_DEVICES": "the GPUs that may be used",
}
"""Environment variables that change what a command does, and how."""

# --- options of several commands ---

Checkpoint = Annotated[Path, Option("The run folder that `vgi fit` or `vgi finetune` printed.", "RUN")]
Epochs = Annotated[int | None, Option("Number of epochs (em: of iterations).", "N", "epochs")]
_TIME = (
    "Wall time of the whole command, such as 90, 40s, 30m or 2h. What there is by then is kept; exit code 1 where "
    "that is nothing."
)
TimeLimit = Annotated[str | float | None, Option(_TIME, "T", "time_limit")]
_MEMORY = "Most memory that the command may take, such as 2G; what needs more is kept in files, or refused at once."
MaxMemory = Annotated[str | int | None, Option(_MEMORY, "SIZE", parse=size, accept=size)]
_KEEP = "Of a table that is kept in files: keep its encoded rows in the run too; --resume then takes them from there."
KeepEncoded = Annotated[bool, Option(_KEEP)]
Force = Annotated[bool, Option("Replace an output that exists.")]
_MASK = "Hide more cells: same columns and rows as DATA, 1 = observed, 0 = missing."
Mask = Annotated[str | Path | None, Option(_MASK, "FILE", "mask")]
_TOKEN = (
    "One more text that means missing, in every column or in COL (repeatable); COL may be several, as q1,q2 or q*. "
    "COL= alone: words such as NA and None are levels there."
)
NaValues = Annotated[Sequence[str], Option(_TOKEN, "[COL=]TOKEN", "table.na_values")]
_DELIMITER = "Delimiter of CSV (default: comma; tab for .tsv)."
Delimiter = Annotated[str | None, Option(_DELIMITER, "CHAR", "table.delimiter")]
_DECIMAL = "Decimal mark of numbers in CSV: . (default) or a comma."
Decimal = Annotated[str | None, Option(_DECIMAL, "CHAR", "table.decimal")]
_UNSEEN = (
    "Levels of new rows that the fit has not seen: error (default), missing (they are filled) or carry (they stay)."
)
Unseen = Annotated[str | None, Option(_UNSEEN, "RULE", "table.unseen")]
Seed = Annotated[int | None, Option("Seed (fit: 0; afterwards: the run's).", "N", "seed")]
Device = Annotated[str | None, Option("auto, cpu, cuda, cuda:1, …. [env var: VGI_DEVICE]", "NAME", "device")]
Threads = Annotated[int | None, Option("Threads and processes on the CPU. [env var: VGI_THREADS]", "N", "threads")]
_COMPILE = "Capture the steps as CUDA graphs, or in `vgi fit` compile the density on a CPU: auto, off or on."
Compile = Annotated[str | None, Option(_COMPILE, "WHEN", "compile", after="threads")]
_PLUGIN = (
    "Python file that registers models, methods, samplers, conditionals or kinds of columns; it is run (repeatable)."
)
Plugged = Annotated[Plugins | None, Option(_PLUGIN, "FILE.py", flag="--plugin", accept=as_files)]
Ids = Annotated[
    Sequence[str],
    Option(
        "Column that names the rows: kept as it is; the same name gets the same random draws (repeatable).",
        "COL",
        "table.id",
    ),
]
Exclude = Annotated[Sequence[str], Option("Column to carry, not to model (repeatable).", "COL", "table.exclude")]
_KIND = Option(
    "Kind of a column (repeatable): numeric, integer, categorical, …; carry: as it is.",
    "NAME=KIND",
    "table.columns",
    "--column",
    parse=_kinds,
    example={"age": "integer"},
)
Kinds = Annotated[Mapping[str, str] | None, _KIND]
KindsOfTrial = Annotated[Mapping[str, str] | None, replace(_KIND, accept=_kinds_of_trial)]
"""Where `columns` may be meant for `only`."""
Bounds = Annotated[
    Mapping[str, str] | None,
    Option(
        "Limits of a column's fills (repeatable): LOW:HIGH, LOW:, :HIGH, observed or none; LOW..HIGH of dates or "
        "times; all=… for each column. Default: its natural limits.",
        "COL=LIMITS",
        "table.bounds",
        parse=_bounds,
        example={"age": "0:120"},
    ),
]
Unbounded = Annotated[
    Sequence[str], Option("The same as --bounds COL=none (repeatable), or all.", "COL", "table.unbounded")
]
Samples = Annotated[int | None, Option("Draws of the latents a row, for models with latents (3000).", "N")]
_REFIT = "Epochs for which an autoencoder's encoder is fine-tuned to DATA (as long as it helps); 0: none."
RefitEpochs = Annotated[int | None, Option(_REFIT, "N")]
_BOARD = "Write the metrics of the fit for TensorBoard too, to DIR/<run>; needs the extra `tensorboard`."
TensorBoard = Annotated[str | Path | None, Option(_BOARD, "DIR")]
Weight = Annotated[
    str | None,
    Option("Column by which rows count in the likelihood: carried, never modelled.", "COL", "table.weight"),
]
RecipeFile = Annotated[str | Path | None, Option("Settings in YAML.", "FILE")]
Out = Annotated[str | Path | None, Option("Where the result goes; see above for the default.", "PATH", short="-o")]
_SAFE = "Write a ' before cells of CSV that a spreadsheet would take for formulas (=, +, -, @ …; not numbers)."
SafeCells = Annotated[bool, Option(_SAFE)]
Json = Annotated[bool, Option("One JSON object, and nothing else, on stdout.")]
Say = Annotated[Callable[[str], None] | None, Option("Takes the lines that a command writes to stderr.", typed=False)]
Tell = Annotated[Callable[[Progress], None] | None, Option("Takes how far the work is, often.", typed=False)]


class ConsoleOptions(TypedDict, total=False):
    """Of every command, on the command line only."""

    quiet: Annotated[bool, Option("Warnings and errors only.", short="-q")]
    verbose: Annotated[bool, Option("Say more.", short="-v")]
    color: Annotated[
        str, Option("Colours on stderr: auto (on a terminal; default), always or never.", "WHEN", default="auto")
    ]
    log_file: Annotated[str | Path | None, Option("Append each line of stderr, with its time, to FILE too.", "FILE")]
    debug: Annotated[bool, Option("Show the traceback of an error.")]


# --- the commands, their options in the order of `--help` (those of CommonOptions come last) ---


class TableOptions(TypedDict, total=False):
    """Of every command that reads a table, also in Python."""

    mask: Mask
    na_values: NaValues
    delimiter: Delimiter
    decimal: Decimal
    unseen: Unseen


class RunOptions(TypedDict, total=False):
    """Of every command that computes with a model, also in Python."""

    seed: Seed
    device: Device
    threads: Threads
    plugins: Plugged
    out: Out
    say: Say
    progress: Tell


class CommonOptions(TableOptions, RunOptions, total=False):
    """Of every command that reads a table and computes with a model."""


class FitOptions(CommonOptions, total=False):
    """Of `vgi fit`."""

    model: Annotated[str | None, Option("Model; see below. Default: auto.", "NAME", "model.name")]
    method: Annotated[str | None, Option("Method; see below. Default: the model's own.", "NAME", "method.name")]
    imputer: Annotated[
        str | None,
        Option("Imputer of --method impute-then-fit, which it implies; below.", "NAME", "method.imputer"),
    ]
    recipe: RecipeFile
    set: Annotated[
        Mapping[str, Any] | None,
        Option("One setting, such as model.factors=3 (repeatable).", "KEY=VALUE", example={"model.factors": 3}),
    ]
    val: Annotated[
        str | float | None,
        Option(
            "Rows kept out of training, which select its best epoch and end it early.",
            "FILE|FRACTION",
            "val",
            parse=_number,
        ),
    ]
    holdout_cells: Annotated[
        str | float | None,
        Option(
            "Score a first fit on a share of the observed cells, such as 5%, hidden from it; the fit kept has all.",
            "SHARE",
            "holdout_cells",
            parse=_share,
            accept=_share,
        ),
    ]
    select: Annotated[
        str | None,
        Option(
            "With --val: loglik (of the observed cells, default) or objective (the method's own loss).",
            "RULE",
            "select",
        ),
    ]
    score: Annotated[
        str | None,
        Option(
            "What decides between models and sizes: cells (how well hidden cells are filled, default) or loglik (of "
            "held-out rows).",
            "RULE",
            "score",
        ),
    ]
    compare: Annotated[
        Sequence[str],
        Option(
            "Without --model: a model that is compared too, such as flow or vae (repeatable), by four fits of it.",
            "NAME",
            "compare",
        ),
    ]
    epochs: Epochs
    time_limit: TimeLimit
    max_memory: MaxMemory
    keep_encoded: KeepEncoded
    resume: Annotated[bool, Option("Continue the run in --out.")]
    force: Force
    tensorboard: TensorBoard
    id: Ids
    exclude: Exclude
    columns: Kinds
    weight: Weight
    carry_others: Annotated[
        bool, Option("Carry the columns that the model cannot take (fa takes numbers only).", key="table.carry_others")
    ]
    bounds: Bounds
    unbounded: Unbounded
    blocks: Annotated[
        Sequence[Sequence[str]] | str,
        Option(
            "Columns that are redrawn together (repeatable), or auto: those that are missing together.",
            "A,B,…",
            "table.blocks",
            "--block",
            default=(),
            parse=_blocks,
            accept=_groups,
        ),
    ]
    compile: Compile


class HideOptions(TypedDict, total=False):
    """Of `vgi hide`."""

    mechanism: Annotated[
        str,
        Option(
            "mcar (every cell alike), mar (by the ranks of cells that stay) or mnar (by the rank of the cell).",
            "RULE",
            default="mcar",
        ),
    ]
    rate: Annotated[
        float | None, Option("Share of a column's observed cells to hide (0.3).", "SHARE", parse=_real("--rate"))
    ]
    only: Annotated[
        Sequence[str],
        Option("Column that loses cells (repeatable). Default: all that are modelled.", "COL", flag="--columns"),
    ]
    safe_cells: SafeCells
    id: Ids
    exclude: Exclude
    columns: KindsOfTrial
    force: Force
    mask: Mask
    na_values: NaValues
    delimiter: Delimiter
    decimal: Decimal
    seed: Annotated[int | None, Option("Seed (0).", "N", "seed")]
    out: Annotated[str | Path | None, Option("The folder of the trial.", "FOLDER", short="-o")]
    say: Say
    progress: Tell


class FitConsoleOptions(TypedDict, total=False):
    """Of `vgi fit`, on the command line only."""

    dry_run: Annotated[
        bool,
        Option(
            "Say on stdout what each column is taken for, as a recipe that fixes it, and what would be fitted, in "
            "which time and where to; fit and write nothing.",
            after="columns",
        ),
    ]


class CheckOptions(TypedDict, total=False):
    """Of `vgi check`."""

    report: Annotated[
        str | Path | None,
        Option("Write a page too, with pictures of what is missing (needs the extra report).", "FILE.html"),
    ]
    force: Force
    trial: Annotated[
        bool,
        Option(
            "Leave out time and memory of each model, which take a second's trial of each.",
            flag="--no-trial",
            default=True,
            parse=lambda left_out: not left_out,
        ),
    ]
    max_memory: MaxMemory
    id: Ids
    exclude: Exclude
    columns: Kinds
    weight: Weight
    bounds: Bounds
    unbounded: Unbounded
    recipe: RecipeFile
    mask: Mask
    na_values: NaValues
    delimiter: Delimiter
    decimal: Decimal
    seed: Seed
    plugins: Plugged
    say: Say
    progress: Tell


class CheckConsoleOptions(TypedDict, total=False):
    """Of `vgi check`, on the command line only."""

    json: Annotated[bool, Option("One JSON object, and nothing else, on stdout.", after="columns")]


class FinetuneOptions(CommonOptions, total=False):
    """Of `vgi finetune`."""

    epochs: Epochs
    time_limit: TimeLimit
    force: Force
    tensorboard: TensorBoard


LeaveBlank = Annotated[
    Mapping[str, str | Sequence[str]] | None,
    Option(
        "Leave cells of a column blank in rows that were not asked (repeatable): cigarettes:smoker=no, "
        "'income:age<18'.",
        "COL:OTHER=VALUE",
        accept=_blanks,
    ),
]


class ImputeOptions(CommonOptions, total=False):
    """Of `vgi impute`."""

    m: Annotated[
        int | None,
        Option("Number of imputations. Default: 5 (with --point 100, of chains 20), or all chains if fewer.", "N"),
    ]
    format: Annotated[
        str | None,
        Option(
            "files (one table a draw), long (all in one), mids-csv (the same, for R's as.mids) or single.", "LAYOUT"
        ),
    ]
    point: Annotated[
        str | None,
        Option("One table of point estimates (of levels their mode); not for inference.", "mean|median|mode"),
    ]
    sampler: Annotated[str, Option("Sampler; see below.", "NAME", default="auto")]
    uncertainty: Annotated[
        str,
        Option(
            "Uncertainty of the parameters, which Rubin's rules need: auto (what the run has), bootstrap (a refit for "
            "each imputation, made with the fit), posterior (a posterior draw for each) or none.",
            "RULE",
            default="auto",
        ),
    ]
    original: Annotated[
        bool,
        Option(
            "With --format long: leave out .imp 0, the table with its holes.",
            flag="--no-original",
            default=True,
            parse=lambda left_out: not left_out,
        ),
    ]
    strict: Annotated[bool, Option("Write nothing and exit 1 where holes would stay (columns that are not modelled).")]
    safe_cells: SafeCells
    delta: Annotated[
        Mapping[str, str | float] | None,
        Option(
            "Move a column's fills away from the model's (repeatable): +0.5sd, -3 (its units) or LEVEL:x1.5 (odds).",
            "COL=SHIFT",
            accept=_deltas,
        ),
    ]
    leave_blank: LeaveBlank
    shard: Annotated[
        str | None,
        Option(
            "Fill and write the rows of shard I of N alone, in a process or on a machine of its own; the files of all "
            "shards, joined, are those of one run.",
            "I/N",
        ),
    ]
    time_limit: TimeLimit
    max_memory: MaxMemory
    force: Force
    compile: Compile


class ImputeConsoleOptions(TypedDict, total=False):
    """Of `vgi impute`, on the command line only."""

    dry_run: Annotated[
        bool,
        Option("Say on stdout what would be filled, how, and which files would be written; write nothing.", after="m"),
    ]


class BatchOptions(TypedDict, total=False):
    """Of `vgi_cli.impute_batches`."""

    m: Annotated[int | None, Option("Number of imputations. Default: 1 (with point= 100, of chains 20).", "N")]
    point: Annotated[str | None, Option("One table of point estimates; not for inference.", "mean|median|mode")]
    sampler: Annotated[str, Option("Sampler.", "NAME", default="auto")]
    uncertainty: Annotated[str, Option("Uncertainty of the parameters.", "RULE", default="auto")]
    na_values: NaValues
    unseen: Unseen
    seed: Seed
    device: Device
    threads: Threads
    plugins: Plugged


class EvaluateOptions(CommonOptions, total=False):
    """Of `vgi evaluate`."""

    truth: Annotated[
        Data | None, Option("The complete table: score the imputations.", "FILE", accept=lambda data: data)
    ]
    objective: Annotated[bool, Option("Fine-tune and add the VGI objective (not comparable with a likelihood).")]
    truth_model: Annotated[
        Any,  # a path or a Run
        Option("The law behind the data, a run or JSON with parameters: add KL, Wasserstein distance, RMSE.", "FILE"),
    ]
    conditionals: Annotated[
        bool,
        Option("Compare the fitted conditionals with the model's own and, with --truth-model, the truth's, by column."),
    ]
    per_row: Annotated[str | Path | None, Option("Write log p(observed cells) of each row.", "FILE")]
    samples: Samples
    rows: Annotated[
        int | Literal["all"] | None,
        Option(
            "Rows, drawn at random, that are scored where the likelihood has to be estimated (1000; fills: 5000).",
            "N|all",
            parse=_count,
        ),
    ]
    refit_epochs: RefitEpochs
    time_limit: TimeLimit
    max_memory: MaxMemory
    force: Force


class ScoreOptions(CommonOptions, total=False):
    """Of `vgi score`."""

    samples: Samples
    refit_epochs: RefitEpochs
    safe_cells: SafeCells
    time_limit: TimeLimit
    force: Force


class SampleOptions(RunOptions, total=False):
    """Of `vgi sample`."""

    n: Annotated[int | None, Option("Number of rows (1000).", "N", flag="--rows", short="-n")]
    missing: Annotated[bool, Option("Give them the holes of fitted rows, chosen at random.")]
    leave_blank: LeaveBlank
    safe_cells: SafeCells
    time_limit: TimeLimit
    force: Force


class ReportOptions(RunOptions, total=False):
    """Of `vgi report`."""

    rows: Annotated[
        int | Literal["all"] | None,
        Option(
            "Rows of each table, drawn at random, whose holes are filled and looked at (2000).", "N|all", parse=_count
        ),
    ]
    tipping: Annotated[
        Sequence[str],
        Option(
            "How the pooled mean of COL moves as its fills are shifted, and where that changes what its interval says "
            "of VALUE (default: of the mean without a shift; repeatable).",
            "COL[=VALUE]",
        ),
    ]
    time_limit: TimeLimit
    force: Force


class ReportConsoleOptions(TypedDict, total=False):
    """Of `vgi report`, on the command line only."""

    json: Annotated[bool, Option("One JSON object, and nothing else, on stdout; no page without -o.", after="rows")]


class EvaluateConsoleOptions(TypedDict, total=False):
    """Of `vgi evaluate`, on the command line only."""

    json: Annotated[
        bool, Option("One JSON object, and nothing else, on stdout; no files without -o.", after="conditionals")
    ]
    fail_if: Annotated[
        Sequence[str],
        Option("Exit with 3 if this holds, e.g. 'loglik < -5' (repeatable).", "'PATH OP NUMBER'", after="per_row"),
    ]


ON_CONSOLE = (
    ConsoleOptions,
    FitConsoleOptions,
    CheckConsoleOptions,
    ImputeConsoleOptions,
    ReportConsoleOptions,
    EvaluateConsoleOptions,
)
"""Options that no function has."""


class DoctorOptions(TypedDict, total=False):
    """Of `vgi doctor`."""

    device: Device
    threads: Threads
    recipe: Annotated[str | None, Option("Settings in YAML, to see what they come to.", "FILE")]
    json: Json


class RecipeListOptions(TypedDict, total=False):
    """Of `vgi recipe ls`."""

    json: Json


class RecipeShowOptions(TypedDict, total=False):
    """Of `vgi recipe show`."""


class RecipeCopyOptions(TypedDict, total=False):
    """Of `vgi recipe cp`."""

    force: Force


class RecipeValidateOptions(TypedDict, total=False):
    """Of `vgi recipe validate`."""

    plugins: Plugged
    json: Json


class RecipeSchemaOptions(TypedDict, total=False):
    """Of `vgi recipe schema`."""

    plugins: Plugged


class PoolOptions(TypedDict, total=False):
    """Of `vgi pool`."""

    df_complete: Annotated[
        float | None,
        Option(
            "Degrees of freedom that the analysis has without missing data (rows less parameters). Default: infinite, "
            "which makes intervals of small tables too narrow.",
            "N",
            parse=_real("--df-complete", "341"),
        ),
    ]
    level: Annotated[
        float, Option("Level of the confidence intervals (0.95).", "P", default=0.95, parse=_real("--level", "0.95"))
    ]
    tests: Annotated[
        Sequence[Sequence[str]],
        Option(
            "Test that these terms are all zero (repeatable). A term that holds a comma goes in quotes, as in CSV: "
            "'a,\"poly(b, 2)1\"'.",
            "TERM,…",
            flag="--test",
            parse=_lists,
        ),
    ]
    delimiter: Annotated[str | None, Option(_DELIMITER, "CHAR")]
    decimal: Annotated[str | None, Option(_DECIMAL, "CHAR", parse=_mark)]
    json: Json


# --- reading the table ---


def fields_of(*tables: Any) -> dict[str, Field]:
    """The options of one or more tables by name, in the order of `--help`."""
    hints: dict[str, Any] = {}
    for table in tables:
        own = get_type_hints(table, include_extras=True)
        common = {name: own.pop(name) for name in CommonOptions.__annotations__ if name in own}
        hints |= own | common
    fields = {name: Field(name, *get_args(hint)) for name, hint in hints.items()}
    order = [name for name, field in fields.items() if field.option.after is None]
    for name, field in fields.items():
        if field.option.after is not None:
            order.insert(order.index(field.option.after) + 1, name)
    return {name: fields[name] for name in order}


@dataclass(frozen=True)
class GivenOptions:
    """What was said to a command: the value of every option by name, and whether it was typed."""

    fields: Mapping[str, Field]
    values: Mapping[str, Any]
    typed: bool

    def flags(self) -> dict[str, tuple[Any, str]]:
        """The settings among them, for `gather`: by dotted key the value and where it was said (a flag, a keyword). A
        switch that is off says nothing."""
        keys = {field.option.key: field for field in self.fields.values()}
        return {
            key: (self.values[field.name] or None, field.flags[-1] if self.typed else field.name)
            if field.kind is bool
            else (self.values[field.name], field.flags[-1] if self.typed else field.name)
            for key, field in keys.items()
            if key is not None
        }


def read_typed(fields: Mapping[str, Field], typed: Mapping[str, Any]) -> GivenOptions:
    """The options of a command line: by name what was typed; None where nothing was."""
    values = {}
    for name, field in fields.items():
        value, parse = typed.get(name), field.option.parse
        values[name] = value if value is None or parse is None else parse(value)
    return GivenOptions(fields, values, True)


def read_given(function: str, fields: Mapping[str, Field], given: Mapping[str, Any]) -> GivenOptions:
    """The options of a Python function by its keywords. TypeError for one that it does not have, which says what it
    would be."""
    for name in given:
        if name not in fields:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}': {_instead(name, fields)}")
    values = {name: given.get(name, field.default) for name, field in fields.items()}
    accepted = {name: value if value is None else fields[name].accept(plain(value)) for name, value in values.items()}
    return GivenOptions(fields, accepted, False)


def _instead(name: str, fields: Mapping[str, Field]) -> str:
    """What somebody may have meant by a keyword that a function does not have: a flag that has another name here or
    none, or another keyword."""
    flag = f"--{name.replace('_', '-')}"
    named = next((field for field in fields.values() if flag in field.flags), None)
    if named is not None:
        return f"`{flag}` is {named.name}={'False' if named.default is True else '…'} in Python"
    if any(name in table.__annotations__ for table in ON_CONSOLE):
        return f"`{flag}` is of the command line alone"
    return nearest(name, fields)


def plain(value: Any) -> Any:
    """A value with the numbers, texts and truth values of Python for those of NumPy, also within lists and mappings."""
    numpy = sys.modules.get("numpy")  # which loads it where somebody gives one
    try:
        return value if numpy is None else _without_numpy(value, numpy.generic)
    except RecursionError:  # a list within itself, which `gather` refuses
        return value


def _without_numpy(value: Any, scalar: type) -> Any:
    if isinstance(value, scalar):
        return value.item()  # type: ignore[attr-defined]
    if type(value) is dict:
        return {_without_numpy(key, scalar): _without_numpy(inner, scalar) for key, inner in value.items()}
    return type(value)(_without_numpy(inner, scalar) for inner in value) if type(value) in (list, tuple) else value


_Function = TypeVar("_Function", bound=Callable[..., Any])


def shown_by_help(table: Any) -> Callable[[_Function], _Function]:
    """Give a function whose last parameter is `**options` the signature with the options of the table, as `help()` and
    `inspect` show it."""

    def shown(function: _Function) -> _Function:
        signature = inspect.signature(function)
        first = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.kind)
            for name, field in fields_of(table).items()
        ]
        function.__signature__ = signature.replace(parameters=[*first, *keywords])  # type: ignore[attr-defined]
        return function

    return shown
