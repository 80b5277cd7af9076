"""The command line: `repfl`, or `python -m repfl`."""

from __future__ import annotations

import errno
import gc
import sys
from collections.abc import Callable, Sequence
from inspect import cleandoc
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from repfl.bench.cli import catalog, check, data, experiments, new, show
from repfl.bench.errors import FINDING, INPUT, INTERNAL, Corrupt, UserError, nearest, one_line
from repfl.datasets.core.errors import DataError

COMMANDS: dict[str, Callable[..., Any]] = {
    "list": catalog.list_kind,
    "info": catalog.info,
    "plan": experiments.plan,
    "run": experiments.run,
    "report": experiments.report,
    "reproduce": experiments.reproduce,
    "show": show.show,
    "check": check.check,
    "verify": check.verify,
    "collect": check.collect,
    "merge": check.merge,
    "new": new.new,
}
DATA_COMMANDS: dict[str, Callable[..., Any]] = {
    "list": data.list_datasets,
    "get": data.get,
    "import": data.import_files,
    "show": data.show_split,
}


def command_line() -> Any:
    """Return the parser of all commands."""
    app = typer.Typer(
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=(
            "Regenerates the tables and figures of five papers on personalised federated learning,"
            " beside what they print. Exit codes: 0 fine; 1 a finding; 2 wrong input; 3 some cells"
            " or artefacts failed; 4 an internal error; 130 and 143 stopped by a signal."
        ),
    )
    app.callback()(_root)
    data_app = typer.Typer(help="Data sets: list, get, import, show.", no_args_is_help=True)
    app.add_typer(data_app, name="data")
    for group, commands in ((app, COMMANDS), (data_app, DATA_COMMANDS)):
        for name, function in commands.items():
            paragraphs = cleandoc(function.__doc__ or "").split("\n\n")
            # newer versions of typer would keep the line ends of the docstring
            text = "\n\n".join(" ".join(each.split()) for each in paragraphs)
            short, _, _ = f"{text} ".partition(". ")
            group.command(name, help=text, short_help=short)(function)
    return typer.main.get_command(app)


def _version(requested: bool) -> None:
    if requested:
        import repfl

        print(f"repfl {repfl.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="the version, and leave"),
    ] = False,
) -> None:
    """Take the options of `repfl` itself."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code."""
    # most commands make many small objects at once and keep them: the default thresholds would
    # spend a tenth of the time on looking for cycles among them
    gc.set_threshold(50_000, 20, 50)
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal that lacks a sign shows another
        sys.stdout.reconfigure(errors="replace")
    sys.exit(call(list(sys.argv[1:] if arguments is None else arguments)))


def call(arguments: list[str]) -> int:
    """Run a command; whatever goes wrong becomes one line and an exit code."""
    try:
        return _dispatch(arguments)
    except UserError as error:
        return _say(error, error.code)
    except Corrupt as error:
        return _say(error, FINDING)
    except KeyboardInterrupt:
        return _say("stopped by the user", 130)
    except BrokenPipeError:  # the reader of our output has left, such as `head`
        sys.stderr.close()
        return 0
    except Exception as error:  # never a traceback
        return _unexpected(error)


def _say(message: object, code: int) -> int:
    text = one_line(message) if isinstance(message, BaseException) else str(message)
    print(f"repfl: {text}", file=sys.stderr)
    return code


def _dispatch(arguments: list[str]) -> int:
    """Call the command's function with the arguments; its return value is the exit code."""
    parser = command_line()
    try:
        result = parser.main(arguments or ["--help"], prog_name="repfl", standalone_mode=False)
    except Exception as error:
        if hasattr(error, "format_message"):  # the parser's complaint about an option or a command
            text = _parser_message(error, arguments, parser)
            # without a message, the help was shown instead
            return _say(text, INPUT) if error.format_message() else 0
        if type(error).__name__ == "Abort":
            return _say("stopped by the user", 130)
        # the parser's way of leaving
        if isinstance(code := getattr(error, "exit_code", None), int):
            return code
        raise
    return result if isinstance(result, int) else 0


def _parser_message(error: Any, arguments: list[str], parser: Any) -> str:
    """Return the parser's complaint, with the nearest command if there is none of that name."""
    text = " ".join(error.format_message().split())
    if text.startswith("No such command") and arguments and "mean" not in text:
        text += f" {nearest(arguments[0], parser.commands)}"
    if type(error).__name__ == "MissingParameter" and error.param.help:
        text = f"{text.rstrip('.')}: {error.param.help}"
    context = getattr(error, "ctx", None)
    if context and context.parent:
        return f"{context.command_path.removeprefix('repfl').strip()}: {text}"
    return text


def _unexpected(error: Exception) -> int:
    """Print a fault of ours in one line, and write the traceback to a file for a report."""
    if isinstance(error, DataError):
        return _say(error, INPUT)
    if isinstance(error, OSError) and error.filename:
        return _say(f"{error.filename}: {error.strerror}", INPUT)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _say(f"{error.strerror}: free some, where output goes or in TMPDIR", INPUT)
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="repfl-", suffix=".log", delete=False) as file:
        file.write("".join(traceback.format_exception(error)))
    return _say(
        f"internal error, {type(error).__name__}: {one_line(error)} (details in {file.name};"
        " please report it)",
        INTERNAL,
    )


if __name__ == "__main__":
    main()
