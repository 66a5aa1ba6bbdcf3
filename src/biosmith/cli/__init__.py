"""The command line: one thin file a command group, found through the table below and imported only when called.

A command is a typed function: its signature is the command line (tyro), its docstring the help. It returns a
`Report`; the dispatcher prints it for people, or as one JSON object on stdout with `--json`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import io
import json
import logging
import os
import re
import sys
import typing
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from biosmith.errors import DONE, FAILED, SET_ASIDE, WRONG_CALL, BiosmithError, UsageError
from biosmith.version import __version__

# command -> (module:function, one line for the list of commands)
COMMANDS: dict[str, tuple[str, str]] = {
    "corpus build": ("biosmith.cli.corpus:build", "Raw files to clean, de-duplicated Parquet shards"),
    "corpus fetch": ("biosmith.cli.corpus:fetch", "Download the official PubMed and PMC bulk files"),
    "corpus stats": ("biosmith.cli.corpus:stats", "What is in a corpus"),
    "vocab train": ("biosmith.cli.vocab:train", "Learn a vocabulary from a corpus"),
    "vocab report": ("biosmith.cli.vocab:report", "How vocabularies cut biomedical words, side by side"),
    "tokenize": ("biosmith.cli.tokenize:tokenize", "Corpus and vocabulary to a memory-mapped token store"),
    "sentences": ("biosmith.cli.sentences:sentences", "Corpus to sentences, for a latent-variable model"),
    "recipes": ("biosmith.cli.recipes:recipes", "The papers' recipes, listed or in full"),
    "plan": ("biosmith.cli.plan:plan", "What a pretraining run takes: memory, hours, cost"),
    "pretrain": ("biosmith.cli.pretrain:pretrain", "Train a language model from a token store"),
    "export": ("biosmith.cli.export:export", "A training run to a Hugging Face folder"),
    "release": ("biosmith.cli.export:release", "A model folder made fit for publishing"),
    "convert": ("biosmith.cli.export:convert", "A checkpoint of another tool to a Hugging Face folder"),
    "data ls": ("biosmith.cli.data:ls", "The datasets of a suite, their counts beside the papers'"),
    "data prepare": ("biosmith.cli.data:prepare", "Instances from a raw corpus, exactly as BLURB makes them"),
    "data check": ("biosmith.cli.data:check", "What is wrong with a dataset's files, by file and line"),
    "bench run": ("biosmith.cli.bench:run", "Fine-tune and score models on a suite, several seeds each"),
    "bench show": ("biosmith.cli.bench:show", "Results of a suite: datasets, groups, score"),
    "bench compare": ("biosmith.cli.bench:compare", "Is one model better than another, dataset by dataset"),
    "bench steps": (
        "biosmith.cli.bench:steps",
        "F1 by the number of pretraining steps, from a run's checkpoints",
    ),
    "bench ablations": ("biosmith.cli.bench:ablations", "The papers' ablations, and what they report"),
    "bench leaderboard": (
        "biosmith.cli.bench:leaderboard",
        "Results as a static site, beside reported scores",
    ),
    "bench submit": ("biosmith.cli.bench:submit", "Pack a run with its lineage into one file"),
    "bench verify": ("biosmith.cli.bench:verify", "Compute the scores of a submission anew"),
    "data convert": ("biosmith.cli.data:convert", "Format to format: tagging files, SQuAD's form, documents"),
    "bench score": ("biosmith.cli.bench:score", "Score anybody's predictions under the exact protocol"),
    "finetune": ("biosmith.cli.finetune:finetune", "Fine-tune a model on a task"),
    "evaluate": ("biosmith.cli.finetune:evaluate", "Score a tuned model on a split"),
    "annotate": ("biosmith.cli.annotate:annotate", "Documents in, annotated documents out"),
    "quantize": (
        "biosmith.cli.annotate:quantize",
        "A tagger in int8 for the CPU engines, refused if F1 falls",
    ),
    "view": ("biosmith.cli.annotate:view", "Annotated documents as one self-contained HTML page"),
    "generate reconstruct": (
        "biosmith.cli.generate:reconstruct",
        "Sentences through the latent space and back",
    ),
    "generate interpolate": ("biosmith.cli.generate:interpolate", "The way from one sentence to another"),
    "generate sample": ("biosmith.cli.generate:sample", "New sentences from the prior"),
    "generate analogy": ("biosmith.cli.generate:analogy", "A is to B as C is to a new sentence"),
    "serve": ("biosmith.cli.serve:serve", "Annotation over HTTP: a REST interface and a page"),
    "trace": ("biosmith.cli.trace:trace", "Walk an artefact back to the raw files it came from"),
    "doctor": ("biosmith.cli.doctor:doctor", "What this machine has, and whether biosmith works on it"),
}


# Commands that go on where they stopped without being told to.
RESUMED_BY_THE_SAME_CALL = ("corpus fetch", "finetune")


@dataclass(frozen=True)
class Report:
    """What a command did.

    Attributes:
        data: the object that `--json` prints; its keys are part of the contract.
        text: what people see instead (a string or any rich renderable); None shows `data` as a table.
        set_aside: how much input was set aside; more than none makes the exit code 3.
        set_aside_file: the file that lists it.
        exit_code: for a command whose answer can be "no" (trace, doctor): `FAILED` although it ran to its end.
    """

    data: Any = field(default_factory=dict)
    text: Any = None
    set_aside: int = 0
    set_aside_file: str | None = None
    exit_code: int = DONE


def _way_on(name: str) -> str:
    """What is left of a command that was stopped, and how to go on."""
    if name in RESUMED_BY_THE_SAME_CALL:
        return "; what was finished is kept, the same call goes on"
    if "resume" in inspect.signature(_function(name)).parameters:
        return "; what was finished is kept, --resume goes on"
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in arguments
    arguments = [a for a in arguments if a != "--json"]
    name, rest = _find_command(arguments)
    _write_anything()
    if name is None:
        return _show_commands(arguments, as_json)
    _quiet_libraries()
    try:
        # While a command runs, nothing but its report may reach stdout.
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            report = _parse(name, rest, as_json)()
        _show(report, as_json)
        sys.stdout.flush()
    except BiosmithError as error:
        return _fail(str(error), error.exit_code, as_json)
    except KeyboardInterrupt:
        return _fail(f"stopped{_way_on(name)}", FAILED, as_json)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (OSError, MemoryError) as error:
        return _fail(_describe_system_error(error), FAILED, as_json)
    return report.exit_code or (SET_ASIDE if report.set_aside else DONE)


def _write_anything() -> None:
    """Letters that the terminal's encoding does not have are written as escapes, and do not end the command."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _as_json(value: Any) -> str:
    """JSON that is the same in every encoding: what is escaped is escaped as JSON has it."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def _find_command(arguments: list[str]) -> tuple[str | None, list[str]]:
    for words in (2, 1):
        name = " ".join(arguments[:words])
        if len(arguments) >= words and name in COMMANDS:
            return name, arguments[words:]
    return None, arguments


def _parse(name: str, arguments: list[str], as_json: bool) -> Callable[[], Report]:
    """The command with its arguments. A wrong call ends the program, or is one line of a `UsageError` for JSON."""
    import tyro

    function = _function(name)

    @functools.wraps(function)
    def bind(*args: Any, **kwargs: Any) -> Callable[[], Report]:
        return functools.partial(function, *args, **kwargs)

    arguments = _join_lists(arguments, _list_flags(function))
    _require_paths(arguments, function)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed) if as_json else contextlib.nullcontext():
            return tyro.cli(
                bind,
                prog=f"biosmith {name}",
                description=_describe(function),
                args=arguments,
            )
    except SystemExit as stop:
        if as_json and stop.code:
            message = " ".join(re.sub("[─╭╮╰╯│]+", " ", printed.getvalue()).split())
            raise UsageError(message.partition(" For full helptext")[0]) from None
        raise


def _function(name: str) -> Callable[..., Report]:
    module, _, attribute = COMMANDS[name][0].partition(":")
    function: Callable[..., Report] = getattr(importlib.import_module(module), attribute)
    return function


def _describe(function: Callable[..., Report]) -> str:
    """The docstring down to its arguments. tyro would leave out an "Example:" that stands as a section of its own."""
    return (inspect.getdoc(function) or "").partition("\nArgs:")[0].strip()


def _list_flags(function: Callable[..., Report]) -> set[str]:
    """The flags of a command that take any number of values."""
    hints = typing.get_type_hints(function)
    return {
        f"--{name.replace('_', '-')}"
        for name, hint in hints.items()
        if typing.get_origin(hint) is tuple and typing.get_args(hint)[-1] is Ellipsis
    }


def _join_lists(arguments: list[str], list_flags: Container[str]) -> list[str]:
    """`--override a=1 --override b=2` as `--override a=1 b=2`: the values of a list add up."""
    kept: list[str] = []
    lists: dict[str, list[str]] = {}
    current: list[str] | None = None
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        if flag in list_flags:
            current = lists.setdefault(flag, [])
            if equals:
                current.append(value)
        elif argument.startswith("-") and len(argument) > 1 and not argument[1].isdigit():
            current = None
            kept.append(argument)
        elif current is not None:
            current.append(argument)
        else:
            kept.append(argument)
    for flag, values in lists.items():
        kept += [flag, *values]
    return kept


def _require_paths(arguments: list[str], function: Callable[..., Report]) -> None:
    """Raise `UsageError` for what a shell makes of a variable that is not set: an empty path, which would be the working
    directory, or a list of paths (`--exclude`) with none."""
    hints = typing.get_type_hints(function)
    of_paths = {f"--{name.replace('_', '-')}" for name, hint in hints.items() if "Path" in str(hint)}
    lists = _list_flags(function) & of_paths
    flag, is_path = "", "Path" in str(next(iter(hints.values()), ""))  # what stands before any flag
    for argument, following in pairwise([*arguments, "--"]):
        is_empty = not argument
        if argument.startswith("--"):
            flag, equals, value = argument.partition("=")
            is_path, is_empty = flag in of_paths, bool(equals) and not value
            if flag in lists and following.startswith("--"):
                raise UsageError(f"{flag} names no file or folder; is a variable of the shell not set?")
        if is_path and is_empty:
            where = f" ({flag})" if flag else ""
            raise UsageError(f"an empty path{where} is no path; is a variable of the shell not set?")


def _show_commands(arguments: list[str], as_json: bool) -> int:
    from rich.console import Console
    from rich.table import Table

    if arguments in (["--version"], ["-V"]):
        print(json.dumps({"version": __version__}) if as_json else f"biosmith {__version__}")
        return DONE
    wanted = [a for a in arguments if not a.startswith("-")]
    help_wanted = bool({"-h", "--help"} & set(arguments))
    asked = not wanted and (help_wanted or not arguments)
    group = {n: v for n, v in COMMANDS.items() if wanted and n.split()[0] == wanted[0] and " " in n}
    wrong = not asked and not (group and len(wanted) == 1)
    if wrong or (as_json and not asked and not help_wanted):
        known = ", ".join(n.partition(" ")[2] for n in group) or ", ".join(
            dict.fromkeys(n.split()[0] for n in COMMANDS)
        )
        called = " ".join(wanted[:2])
        return _fail(f"{called!r} is not a command; valid: {known}", WRONG_CALL, as_json)
    console = Console(stderr=as_json)
    table = Table(box=None, show_header=False, padding=(0, 2))
    for name, (_, summary) in (group or COMMANDS).items():
        table.add_row(f"[bold cyan]{name}[/]", summary)
    console.print(
        "[bold]biosmith[/] COMMAND [OPTIONS]   from raw biomedical text to a deployable language model\n"
    )
    console.print(table)
    console.print(
        "\nbiosmith COMMAND --help shows options and an example; --json prints one JSON object on stdout."
    )
    console.print("Exit codes: 0 done, 1 failed, 2 wrong call, 3 done but some input was set aside.")
    return DONE if asked or help_wanted else WRONG_CALL


def _show(report: Report, as_json: bool) -> None:
    from biosmith.artefact import to_plain

    if as_json:
        print(_as_json(to_plain(report.data)))
    else:
        from rich.console import Console

        shown = _table(report.data) if report.text is None else report.text
        plain = isinstance(shown, str)  # holds paths and texts as they are: square brackets are no markup
        Console(soft_wrap=plain, markup=not plain).print(shown)
    if report.set_aside:
        listed = f"; listed in {report.set_aside_file}" if report.set_aside_file else ""
        print(f"biosmith: {report.set_aside:,} records were set aside{listed}", file=sys.stderr)


def _table(data: Any) -> Any:
    from rich.markup import escape
    from rich.pretty import Pretty
    from rich.table import Table

    if not isinstance(data, Mapping):
        return Pretty(data)
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")  # a digest or a path cut short would be a wrong one
    for key, value in data.items():
        shown = f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
        table.add_row(f"[bold]{key}[/]", escape(shown))
    return table


def _fail(message: str, code: int, as_json: bool) -> int:
    if as_json:
        print(_as_json({"error": message}))
    print(f"biosmith: {message}", file=sys.stderr)
    return code


def _describe_system_error(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory"
    assert isinstance(error, OSError)
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _quiet_libraries() -> None:
    """Libraries speak through warnings and loggers that users cannot act on; ours go through `progress.say`."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    warnings.filterwarnings("ignore", category=FutureWarning)
    for name in ("transformers", "torch", "matplotlib"):
        logging.getLogger(name).setLevel(logging.ERROR)
