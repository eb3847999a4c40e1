"""The texts of `--help`: names from the registry, two examples a command."""

from __future__ import annotations

from collections.abc import Mapping

from vgi_cli.registry.names import COMPLETERS, METHODS, MODELS, SAMPLERS
from vgi_cli.settings.options import ENVIRONMENT

TOP = (
    "Fit statistical models to incomplete tables, and fill the holes with draws. Where nobody names a model, several "
    "are fitted by expectation maximisation and compared; variational Gibbs inference is one of the other methods."
)

FIT = (
    "Fit a model on DATA, a table with holes, and print the run folder. DATA: CSV, TSV, Parquet, a folder of Parquet, "
    "several files as one table, or - (CSV on stdin). Without --out the run is the next free run1/, run2/, … Several "
    "processes, GPUs or machines share a fit: torchrun --nproc-per-node 2 -m vgi_cli fit … (docs/scale.md)."
)
CHECK = (
    "Look at DATA before it is fitted: what each column is taken for and why, what is missing and together with what, "
    "columns that may not be what they look like, Little's test of missing completely at random, and the recipe that "
    "fixes the kinds."
)
FINETUNE = (
    "Adapt the conditionals of a run to new rows, the model unchanged, and print the new run folder: a complete run "
    "that imputes DATA. fa and mixture by em have exact conditionals: nothing is adapted. Without --out it is the next "
    "free run1/, run2/, …"
)
IMPUTE = (
    "Fill the holes of DATA (default: the table that was fitted) with draws from the model. Without --out the tables "
    "go to RUN/imputed/; with DATA - to stdout. With -o FOLDER/, or a folder that exists, they go there. Where DATA is "
    "a folder of Parquet, -o NAME/ writes folders with the same files: NAME.1/, NAME.2/, …"
)
EVALUATE = (
    "Report how well a run explains DATA: log-likelihood of the observed cells, the error of the imputations and the "
    "distance of the model where the truth is known, and how good the fitted conditionals are. report.json and "
    "report.md go to --out, by default to a folder of their own: RUN/evaluations/<table>/, <table>-2/, …; with --json "
    "none are written without --out."
)

POOL = (
    "Combine the analyses of several filled tables into one by Rubin's rules, and print estimates, standard errors, "
    "intervals and the fraction of missing information. ESTIMATES: a table (CSV, Parquet, - for CSV on stdin) with one "
    "row for each imputation and term: columns imputation, term, estimate, std_error. --test needs covariances too: "
    "columns cov:TERM, one for each term."
)


DOCTOR = (
    "Say what this machine offers a fit: versions, devices and why each is or is not usable, threads, memory, "
    "and where each setting comes from. Exits with 1 where the device that was asked for (--device, VGI_DEVICE or the "
    "recipe) cannot be used."
)
COMPLETION = (
    "Print the script by which Tab completes commands, flags and the names of models, methods and recipes. bash: put "
    "it into ~/.local/share/bash-completion/completions/vgi; zsh: into _vgi, in a folder of $fpath; fish: into "
    "~/.config/fish/completions/vgi.fish."
)
RECIPE_LS = "List the recipes that come with vgi: names as --recipe takes them."
RECIPE_SHOW = "Print a recipe that comes with vgi, or a file."
RECIPE_CP = "Copy a recipe that comes with vgi to FILE (or into a folder), to change it there."
RECIPE_VALIDATE = "Say everything that is wrong with a recipe, each with its line; exits with 2 where something is."
RECIPE_SCHEMA = "Print the JSON Schema of recipes: editors that know it complete and check YAML while it is written."

PANELS: Mapping[str, Mapping[str, str]] = {
    "Fit and use": {
        "fit": "Fit a model to a table with holes.",
        "impute": "Fill the holes of a table with draws from the model.",
        "finetune": "Adapt a run to new rows, the model unchanged.",
        "sample": "Draw synthetic rows from the model.",
        "score": "Print the log-likelihood of each row: the lowest are the least expected.",
    },
    "Before a fit": {
        "check": "Look at a table: kinds of columns, what is missing, doubts, time and memory of a fit.",
        "hide": "Hide cells of a table by a known rule, to see how well they are filled.",
    },
    "After a fit": {
        "report": "Look at fits and judge them: one HTML page with pictures and verdicts.",
        "evaluate": "Measure a run: log-likelihood, and errors where the truth is known.",
        "pool": "Combine the analyses of several filled tables by Rubin's rules.",
    },
    "Tools": {
        "recipe": "List, print, copy and check recipes: settings of a fit in YAML.",
        "doctor": "Say what this machine offers a fit: versions, devices, memory, settings.",
        "completion": "Print the script by which Tab completes commands, flags and names.",
    },
}
"""The commands as `vgi --help` lists them: by heading, each in a line."""

SCORE = (
    "Print log p(observed cells) of each row of DATA under a run, in nats and data units: one line a row with its "
    "number, its ids, how many cells were observed, and whether the value is exact or an estimate. The lowest rows are "
    "the least expected. Without --out: CSV on stdout."
)
SAMPLE = (
    "Draw rows from the model of a run, in the columns, types and spelling of the table that was fitted; ids, free "
    "text and other columns that are carried are empty. Without --out: CSV on stdout."
)
REPORT = (
    "Look at fits and judge them: one HTML file, which opens anywhere without network, with verdicts in words and "
    "pictures of the training, of what is missing, of observed and imputed cells, of chains and of hidden cells. "
    "RUN: folders that `vgi fit` printed; several stand side by side. The table that was fitted is read again. Without "
    "--out the page goes to the first run: report.html, report-2.html, …; with --json none is written without --out. "
    "The page needs the extra `report` (matplotlib and jinja2), --json alone does not."
)
HIDE = (
    "Make a trial of DATA: hide observed cells by a known mechanism and write table.csv (with the holes), mask.csv "
    "(1 = observed, 0 = missing), truth.csv and trial.json to a folder, for `vgi fit` and `vgi evaluate --truth`. "
    "Cells that are missing already stay missing."
)

_LIMIT = "Wall time of the whole command, such as 90, 40s, 30m or 2h. "
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "fit": {
        "time_limit": f"{_LIMIT}The fit stops in time with the best so far; exit code 1 where nothing was fitted.",
        "out": "The run folder. Default: the next free one of run1/, run2/ and so on.",
        "seed": "Seed of everything random (0).",
    },
    "check": {"seed": "Seed of the trials that tell time and memory (0)."},
    "finetune": {
        "epochs": "Passes over DATA by which the conditionals are adapted (20).",
        "time_limit": f"{_LIMIT}It stops in time with what was adapted; exit code 1 where that is less than an epoch.",
        "out": "The new run folder. Default: the next free one of run1/, run2/ and so on.",
        "seed": "Seed (the run's).",
    },
    "impute": {
        "time_limit": f"{_LIMIT}All tables are written in time, or none, with exit code 1.",
        "out": "File from whose name those of the tables are made: filled.csv gives filled.1.csv, … "
        "Default: RUN/imputed/.",
        "seed": "Seed of the draws (the run's).",
    },
    "evaluate": {
        "mask": "Hide these cells and score how well they are filled: same columns and rows as DATA, 1 = observed, 0 = "
        "hidden.",
        "time_limit": f"{_LIMIT}The report is of the rows that were scored by then; exit code 1 where there are none.",
        "out": "Folder of report.json and report.md. Default: RUN/evaluations/<table>/.",
        "seed": "Seed (the run's).",
    },
    "score": {
        "time_limit": f"{_LIMIT}The rows that were scored by then are written; exit code 1 where there are none.",
        "out": "File of the scores. Default: CSV on stdout.",
        "seed": "Seed (the run's).",
    },
    "sample": {
        "time_limit": f"{_LIMIT}All rows are written in time, or none, with exit code 1.",
        "out": "File of the rows. Default: CSV on stdout.",
        "seed": "Seed of the rows (the run's).",
    },
    "report": {
        "time_limit": f"{_LIMIT}The page names what there was no time for.",
        "out": "File of the page. Default: report.html in the first run.",
        "seed": "Seed of the draws (the run's).",
    },
}
"""Help of options that mean something else, or have another default, in one command than in others."""


def _table(title: str, lines: Mapping[str, str]) -> str:
    width = max(len(name) for name in lines)
    return "\n".join(["\b", f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in lines.items())])


def _examples(*lines: str) -> str:
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])


_MODELS = _table(
    "Models (--model)",
    {"auto": "chosen by comparing mixtures and, for numbers only, fa on hidden cells (default)"}
    | {name: entry.about for name, entry in MODELS.items()},
)
_METHODS = _table("Methods (--method)", {name: entry.about for name, entry in METHODS.items()})
_IMPUTERS = _table(
    "Imputers (--imputer, for --method impute-then-fit)", {name: entry.about for name, entry in COMPLETERS.items()}
)
_SAMPLERS = _table(
    "Samplers (vgi impute --sampler)",
    {"auto": "trees where the run holds some, else the first of these that the run allows (default)"}
    | {name: entry.about for name, entry in SAMPLERS.items()},
)

TOP_EPILOG = "\n\n".join(
    [
        _MODELS,
        _METHODS,
        _IMPUTERS,
        _SAMPLERS,
        _examples("vgi fit data.csv", "vgi impute --checkpoint run1 --m 5 -o filled.csv"),
        _table("Environment", ENVIRONMENT),
        "\b\nExit codes: 0 done, 1 the run failed, 2 usage or input, 3 --fail-if, 130 and 143 interrupted (saved).",
    ]
)
FIT_EPILOG = "\n\n".join(
    [
        _MODELS,
        _METHODS,
        _IMPUTERS,
        _examples(
            "vgi fit data.csv --id patient --out run1",
            "vgi fit data.parquet --model flow --method vgi --val 0.1 --time-limit 30m",
        ),
    ]
)
CHECK_EPILOG = _examples("vgi check data.csv", "vgi check data.csv --id patient --na-values age=-999 --no-trial --json")
FINETUNE_EPILOG = _examples(
    "vgi finetune --checkpoint run1 new.csv", "vgi finetune --checkpoint run1 new.csv --epochs 50 --out run2"
)
IMPUTE_EPILOG = "\n\n".join(
    [
        _SAMPLERS,
        _examples(
            "vgi impute --checkpoint run1 --m 20 --format long -o imputed.csv",
            "vgi impute --checkpoint run1 new.csv --shard 2/3 -o filled.csv",
            "vgi impute --checkpoint run1 new.csv --point mean -o - > filled.csv",
        ),
    ]
)
EVALUATE_EPILOG = _examples(
    "vgi evaluate --checkpoint run1 test.csv --json",
    "vgi evaluate --checkpoint run1 test.csv --truth-model law.json --conditionals",
    "vgi evaluate --checkpoint run1 holes.csv --truth complete.csv --fail-if 'imputation.coverage90 < 0.8'",
)
SCORE_EPILOG = _examples("vgi score run1 new.csv", "vgi score run1 data.parquet -o scores.csv")
SAMPLE_EPILOG = _examples("vgi sample run1 -n 1000 -o synthetic.csv", "vgi sample run1 -n 20 --missing --seed 1")
REPORT_EPILOG = _examples("vgi report run1", "vgi report run1 run2 -o both.html", "vgi report run1 --tipping a --json")
HIDE_EPILOG = _examples(
    "vgi hide data.csv --rate 0.3 -o trial",
    "vgi hide data.csv --mechanism mar --rate 0.2 --columns a --columns b -o trial",
)
DOCTOR_EPILOG = _examples("vgi doctor", "vgi doctor --recipe toy-fa --json")
COMPLETION_EPILOG = _examples("vgi completion bash > vgi-completion.bash", "vgi completion fish > vgi.fish")
GROUPS: dict[str, tuple[str, str]] = {
    "recipe": (PANELS["Tools"]["recipe"], _examples("vgi recipe ls", "vgi recipe cp toy-fa mine.yaml"))
}
"""Help and examples of each first word under which several commands stand: `recipe` of `vgi recipe ls`."""
RECIPE_LS_EPILOG = _examples("vgi recipe ls", "vgi recipe ls --json")
RECIPE_SHOW_EPILOG = _examples("vgi recipe show toy-fa", "vgi recipe show paper/power.yaml")
RECIPE_CP_EPILOG = _examples("vgi recipe cp toy-fa mine.yaml", "vgi recipe cp paper/gas .")
RECIPE_VALIDATE_EPILOG = _examples("vgi recipe validate run1/recipe.yaml", "vgi recipe validate toy-fa --json")
RECIPE_SCHEMA_EPILOG = _examples(
    "vgi recipe schema > recipe.schema.json", "vgi recipe schema --plugin mine.py > recipe.schema.json"
)
POOL_EPILOG = _examples("vgi pool estimates.csv --df-complete 57", "vgi pool estimates.csv --test a,b --json")
