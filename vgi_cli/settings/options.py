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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, TypeVar, get_args, get_type_hints

from vgi_cli.errors import UsageError
from vgi_cli.reporting import Progress

Frame: TypeAlias = Any
"""A pandas DataFrame or an Arrow table."""
Data: TypeAlias = str | Path | Iterable[str | Path] | Frame
Plugins: TypeAlias = str | Path | Sequence[str | Path]

KINDS = ("integer", "numeric", "carry")


@dataclass(frozen=True)
class Option:
    """What the table says of an option beside its name and its type in Python.

    help      its line in `--help`
    flags     how it is typed; empty: it exists in Python only
    metavar   its value in `--help`
    key       the setting of the recipe that it gives; None: it is a field of the request
    default   where it is not said
    repeated  whether the flag may be typed several times
    parse     from what was typed (a list where the flag is repeated) to the value
    accept    from what Python was given to the value; UsageError where it is something else
    after     the option that comes before it in `--help`, where that is not the field above it
    """

    help: str = ""
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    key: str | None = None
    default: Any = None
    repeated: bool = False
    parse: Callable[[Any], Any] | None = None
    accept: Callable[[Any], Any] | None = None
    after: str | None = None


@dataclass(frozen=True)
class Field:
    """An option with its type in Python."""

    kind: Any
    option: Option

    @property
    def typed(self) -> Any:
        """What is typed for it: nothing (a switch), a whole number, texts, or a text."""
        if self.kind is bool:
            return bool
        if self.option.repeated:
            return list[str] | None
        if set(get_args(self.kind)) == {int, type(None)}:
            return int | None
        return str if isinstance(self.option.default, str) else str | None

    @property
    def unsaid(self) -> Any:
        """What the command line has where nothing was typed."""
        return False if self.kind is bool else None if self.option.repeated else self.option.default


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


def _blocks(items: list[str]) -> list[list[str]] | str:
    """`auto`, or blocks of names with commas between them (quoted as in CSV)."""
    if items == ["auto"]:
        return "auto"
    return [[name.strip() for name in next(csv.reader([item], skipinitialspace=True), [])] for item in items]


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
    kinds: dict[str, str] = {}
    for item in items:
        name, equals, kind = item.rpartition("=")
        if not equals or kind not in KINDS:
            raise UsageError(
                f"--column: expected NAME=KIND with a kind of {', '.join(KINDS)}, got '{item}'",
                "for example --column age=integer",
            )
        kinds[name] = kind
    return kinds


def _names(value: Sequence[str]) -> list[str]:
    """Names of columns, or tokens; one text is one of them, not its letters."""
    return [value] if isinstance(value, str) else list(value)


def _groups(value: Sequence[Sequence[str]] | str) -> list[list[str]] | str:
    return value if isinstance(value, str) else [list(group) for group in value]


def as_files(value: Plugins) -> tuple[str | Path, ...]:
    """Plugins as a tuple of files; one path is one of them."""
    return (value,) if isinstance(value, str | Path) else tuple(value)


def _mapping(argument: str, example: Mapping[str, Any]) -> Callable[[object], dict[str, Any]]:
    """A mapping; UsageError that names the argument where it is none."""

    def accept(value: object) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            found = type(value).__name__
            raise UsageError(f"{argument}: expected a mapping, got {found}", f"for example {argument}={example}")
        return dict(value)

    return accept


# --- options of several commands ---

Checkpoint = Annotated[
    Path, Option("The run folder that `vgi fit` or `vgi finetune` printed.", ("--checkpoint",), "RUN")
]
Epochs = Annotated[int | None, Option("Number of epochs (em: of iterations).", ("--epochs",), "N", "epochs")]
TimeLimit = Annotated[
    str | float | None,
    Option(
        "Wall time of the whole command, such as 90, 40s, 30m or 2h. Ends with what there is by then, or with 1.",
        ("--time-limit",),
        "T",
        "time_limit",
    ),
]
Force = Annotated[bool, Option("Replace an output that exists.", ("--force",), default=False)]
Mask = Annotated[
    str | Path | None,
    Option(
        "Hide more cells: same columns and rows as DATA, 1 = observed, 0 = missing.",
        ("--mask",),
        "FILE",
        "mask",
        accept=str,
    ),
]
NaValues = Annotated[
    Sequence[str],
    Option(
        "One more text that means missing in CSV (repeatable).",
        ("--na-values",),
        "TOKEN",
        "table.na_values",
        (),
        repeated=True,
        accept=_names,
    ),
]
Delimiter = Annotated[
    str | None,
    Option("Delimiter of CSV (default: comma; tab for .tsv).", ("--delimiter",), "CHAR", "table.delimiter"),
]
Seed = Annotated[int | None, Option("Seed (fit: 0; afterwards: the run's).", ("--seed",), "N", "seed")]
Device = Annotated[
    str | None, Option("auto, cpu, cuda, cuda:1, …. [env var: VGI_DEVICE]", ("--device",), "NAME", "device")
]
Threads = Annotated[int | None, Option("Threads on the CPU. [env var: VGI_THREADS]", ("--threads",), "N", "threads")]
Compile = Annotated[
    str | None,
    Option(
        "Capture the steps as CUDA graphs, or in `vgi fit` compile the density on a CPU: auto, off or on.",
        ("--compile",),
        "WHEN",
        "compile",
    ),
]
Plugged = Annotated[
    Plugins | None,
    Option(
        "Python file that registers models or methods; it is run (repeatable).",
        ("--plugin",),
        "FILE.py",
        repeated=True,
        accept=as_files,
    ),
]
Out = Annotated[
    str | Path | None,
    Option("Where the result goes; see above for the default.", ("-o", "--out"), "PATH", accept=str),
]
Say = Annotated[Callable[[str], None] | None, Option("Takes the lines that a command writes to stderr.")]
Tell = Annotated[Callable[[Progress], None] | None, Option("Takes how far the work is, often.")]


class ConsoleOptions(TypedDict, total=False):
    """Of every command, on the command line only."""

    quiet: Annotated[bool, Option("Warnings and errors only.", ("-q", "--quiet"), default=False)]
    verbose: Annotated[bool, Option("Say more.", ("-v", "--verbose"), default=False)]
    debug: Annotated[bool, Option("Show the traceback of an error.", ("--debug",), default=False)]


# --- the commands, their options in the order of `--help` ---


class FitOptions(TypedDict, total=False):
    """Of `vgi fit`."""

    model: Annotated[str | None, Option("Model; see below. Default: auto.", ("--model",), "NAME", "model.name")]
    method: Annotated[
        str | None, Option("Method; see below. Default: the model's own.", ("--method",), "NAME", "method.name")
    ]
    imputer: Annotated[
        str | None,
        Option(
            "Imputer of --method impute-then-fit, which it implies; below.", ("--imputer",), "NAME", "method.imputer"
        ),
    ]
    recipe: Annotated[str | Path | None, Option("Settings in YAML.", ("--recipe",), "FILE", parse=Path, accept=Path)]
    set: Annotated[
        Mapping[str, Any] | None,
        Option(
            "One setting, such as model.factors=3 (repeatable).",
            ("--set",),
            "KEY=VALUE",
            repeated=True,
            accept=_mapping("set", {"model.factors": 3}),
        ),
    ]
    val: Annotated[
        str | float | None,
        Option(
            "Held-out rows that select the epoch and stop early.", ("--val",), "FILE|FRACTION", "val", parse=_number
        ),
    ]
    select: Annotated[
        str | None,
        Option(
            "With --val: loglik (of the observed cells, default) or objective (the method's own loss).",
            ("--select",),
            "RULE",
            "select",
        ),
    ]
    epochs: Epochs
    time_limit: TimeLimit
    resume: Annotated[bool, Option("Continue the run in --out.", ("--resume",), default=False)]
    force: Force
    id: Annotated[
        Sequence[str],
        Option(
            "Column that names the rows: carried, keys the draws (repeatable).",
            ("--id",),
            "COL",
            "table.id",
            (),
            repeated=True,
            accept=_names,
        ),
    ]
    exclude: Annotated[
        Sequence[str],
        Option(
            "Column to carry, not to model (repeatable).",
            ("--exclude",),
            "COL",
            "table.exclude",
            (),
            repeated=True,
            accept=_names,
        ),
    ]
    columns: Annotated[
        Mapping[str, str] | None,
        Option(
            "Kind of a column: integer, numeric or carry (repeatable).",
            ("--column",),
            "NAME=KIND",
            "table.columns",
            repeated=True,
            parse=_kinds,
            accept=_mapping("columns", {"age": "integer"}),
        ),
    ]
    bounds: Annotated[
        Mapping[str, str] | None,
        Option(
            "Limits of a column's fills (repeatable): LOW:HIGH, LOW:, :HIGH, observed or none; all=… for each column. "
            "Default: its natural limits.",
            ("--bounds",),
            "COL=LIMITS",
            "table.bounds",
            repeated=True,
            parse=_bounds,
            accept=_mapping("bounds", {"age": "0:120"}),
        ),
    ]
    unbounded: Annotated[
        Sequence[str],
        Option(
            "The same as --bounds COL=none (repeatable), or all.",
            ("--unbounded",),
            "COL",
            "table.unbounded",
            (),
            repeated=True,
            accept=_names,
        ),
    ]
    blocks: Annotated[
        Sequence[Sequence[str]] | str,
        Option(
            "Columns that are redrawn together (repeatable), or auto: those that are missing together.",
            ("--block",),
            "A,B,…",
            "table.blocks",
            (),
            repeated=True,
            parse=_blocks,
            accept=_groups,
        ),
    ]
    mask: Mask
    na_values: NaValues
    delimiter: Delimiter
    seed: Seed
    device: Device
    threads: Threads
    compile: Compile
    plugins: Plugged
    out: Out
    say: Say
    progress: Tell


class FinetuneOptions(TypedDict, total=False):
    """Of `vgi finetune`."""

    epochs: Epochs
    time_limit: TimeLimit
    force: Force
    mask: Mask
    na_values: NaValues
    delimiter: Delimiter
    seed: Seed
    device: Device
    threads: Threads
    plugins: Plugged
    out: Out
    say: Say
    progress: Tell


class ImputeOptions(TypedDict, total=False):
    """Of `vgi impute`."""

    m: Annotated[int | None, Option("Number of imputations. Default: 5, or all chains if fewer.", ("--m",), "N")]
    format: Annotated[
        str | None, Option("files (one table a draw), long (all in one) or single.", ("--format",), "LAYOUT")
    ]
    point: Annotated[
        str | None, Option("One table of point estimates; not for inference.", ("--point",), "mean|median")
    ]
    sampler: Annotated[str, Option("Sampler; see below.", ("--sampler",), "NAME", default="auto")]
    uncertainty: Annotated[
        str,
        Option(
            "Uncertainty of the parameters, which Rubin's rules need: auto, bootstrap (a refit for each imputation; fa "
            "and mixture have them) or none.",
            ("--uncertainty",),
            "RULE",
            default="auto",
        ),
    ]
    original: Annotated[
        bool,
        Option(
            "With --format long: leave out .imp 0, the table with its holes.",
            ("--no-original",),
            default=True,
            parse=lambda left_out: not left_out,
        ),
    ]
    strict: Annotated[
        bool,
        Option(
            "Write nothing and exit 1 where holes would stay (columns that are not modelled).",
            ("--strict",),
            default=False,
        ),
    ]
    time_limit: TimeLimit
    force: Force
    mask: Mask
    na_values: NaValues
    delimiter: Delimiter
    seed: Seed
    device: Device
    threads: Threads
    compile: Compile
    plugins: Plugged
    out: Out
    say: Say
    progress: Tell


class EvaluateOptions(TypedDict, total=False):
    """Of `vgi evaluate`."""

    truth: Annotated[Data | None, Option("The complete table: score the imputations.", ("--truth",), "FILE")]
    objective: Annotated[
        bool,
        Option(
            "Fine-tune and add the VGI objective (not comparable with a likelihood).", ("--objective",), default=False
        ),
    ]
    truth_model: Annotated[
        Any,  # str | Path | Run | None
        Option(
            "The law behind the data, a run or JSON with parameters: add KL, Wasserstein distance, RMSE.",
            ("--truth-model",),
            "FILE",
        ),
    ]
    conditionals: Annotated[
        bool,
        Option("Compare the fitted conditionals with the model's own, by column.", ("--conditionals",), default=False),
    ]
    per_row: Annotated[
        str | Path | None,
        Option("Write log p(observed cells) of each row.", ("--per-row",), "FILE", accept=str),
    ]
    samples: Annotated[
        int | None, Option("Draws of the latents a row, for models with latents (3000).", ("--samples",), "N")
    ]
    rows: Annotated[
        int | Literal["all"] | None,
        Option(
            "Rows, drawn at random, that are scored where the likelihood has to be estimated (1000).",
            ("--rows",),
            "N|all",
            parse=_count,
        ),
    ]
    refit_epochs: Annotated[
        int | None,
        Option(
            "Fine-tune their encoder to DATA for so many epochs, instead of while it helps; 0: not.",
            ("--refit-epochs",),
            "N",
        ),
    ]
    time_limit: TimeLimit
    force: Force
    mask: Mask
    na_values: NaValues
    delimiter: Delimiter
    seed: Seed
    device: Device
    threads: Threads
    plugins: Plugged
    out: Out
    say: Say
    progress: Tell


class EvaluateConsoleOptions(TypedDict, total=False):
    """Of `vgi evaluate`, on the command line only."""

    json: Annotated[
        bool,
        Option(
            "One JSON object, and nothing else, on stdout; no files without -o.",
            ("--json",),
            default=False,
            after="conditionals",
        ),
    ]
    fail_if: Annotated[
        Sequence[str],
        Option(
            "Exit with 3 if this holds, e.g. 'loglik < -5' (repeatable).",
            ("--fail-if",),
            "'PATH OP NUMBER'",
            default=(),
            repeated=True,
            after="per_row",
        ),
    ]


# --- reading the table ---


def annotated(hint: Any) -> tuple[Any, Option]:
    """The type and the Option of an annotation."""
    kind, option = get_args(hint)
    return kind, option


def fields_of(*tables: Any) -> dict[str, Field]:
    """The options of one or more tables by name, in the order of `--help`."""
    hints = {name: hint for table in tables for name, hint in get_type_hints(table, include_extras=True).items()}
    fields = {name: Field(*annotated(hint)) for name, hint in hints.items()}
    order = [name for name, field in fields.items() if field.option.after is None]
    for name, field in fields.items():
        if field.option.after is not None:
            order.insert(order.index(field.option.after) + 1, name)
    return {name: fields[name] for name in order}


@dataclass(frozen=True)
class Said:
    """What was said to a command: the value of every option by name, and whether it was typed."""

    fields: Mapping[str, Field]
    values: Mapping[str, Any]
    typed: bool

    def flags(self) -> dict[str, tuple[Any, str]]:
        """The settings among them, for `gather`: by dotted key the value and where it was said (a flag, a keyword)."""
        keys = {name: field.option for name, field in self.fields.items() if field.option.key is not None}
        return {
            str(option.key): (self.values[name], option.flags[-1] if self.typed else name)
            for name, option in keys.items()
        }


def read(fields: Mapping[str, Field], given: Mapping[str, Any], typed: bool) -> Said:
    """The value of every option. None, which stays None, and what is not given are not said.

    given  by name: what was typed (`typed`), or the keywords of a Python function
    """
    values = {}
    for name, field in fields.items():
        value = given.get(name, field.option.default)
        convert = field.option.parse if typed else field.option.accept
        values[name] = value if value is None or convert is None else convert(value)
    return Said(fields, values, typed)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def shown_by_help(table: Any) -> Callable[[_Function], _Function]:
    """Give a function whose last parameter is `**options` the signature with the options of the table, as `help()` and
    `inspect` show it."""

    def shown(function: _Function) -> _Function:
        signature = inspect.signature(function)
        first = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=field.option.default, annotation=field.kind)
            for name, field in fields_of(table).items()
        ]
        function.__signature__ = signature.replace(parameters=[*first, *keywords])  # type: ignore[attr-defined]
        return function

    return shown


def refuse_unknown(function: str, fields: Mapping[str, Field], given: Mapping[str, Any]) -> None:
    """TypeError for a keyword that the function does not have."""
    for name in given:
        if name not in fields:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
