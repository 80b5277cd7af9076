"""The command line: `repfl`, or `python -m repfl`."""

from __future__ import annotations

import errno
import gc
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

from repfl.bench.errors import FINDING, INPUT, Corrupt, UserError, one_line


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code."""
    # most commands make many small objects at once and keep them: to look through all of them for
    # cycles again and again takes a tenth of the time
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
    except Exception as error:  # the promise of the command line: never a traceback
        return _unexpected(error)


def _say(message: object, code: int) -> int:
    text = one_line(message) if isinstance(message, BaseException) else str(message)
    print(f"repfl: {text}", file=sys.stderr)
    return code


def command_line(first: str = "") -> Any:
    """All commands, each with `--plugin`; those about data only if the first word is no other."""
    from importlib import import_module
    from inspect import cleandoc

    import typer

    from repfl.bench.cli.commands import app, mount_data, mounted_commands
    from repfl.bench.cli.options import pluggable

    for module in ("inspection", "reviewing", "starting", "board"):
        import_module(f"repfl.bench.cli.{module}")  # their commands register themselves

    if first not in {
        info.name or info.callback.__name__ for info in app.registered_commands if info.callback
    }:
        mount_data()
    for info in (*app.registered_commands, *mounted_commands()):
        if info.callback:
            # newer versions of the parser keep the ends of our lines
            told = cleandoc(info.callback.__doc__ or "").split("\n\n")
            info.help = info.help or "\n\n".join(" ".join(part.split()) for part in told)
            info.callback = pluggable(info.callback)
    return typer.main.get_command(app)


def _dispatch(arguments: list[str]) -> int:
    """Hand the arguments to the command's function; its return value is the exit code."""
    command = command_line(*arguments[:1])
    try:
        result = command.main(arguments or ["--help"], prog_name="repfl", standalone_mode=False)
    except Exception as error:
        if hasattr(error, "format_message"):  # the parser's complaint about an option or a command
            text = _parser_message(error, arguments, command)
            return (
                _say(text, INPUT) if error.format_message() else 0
            )  # no message: the help was shown instead
        if type(error).__name__ == "Abort":
            return _say("stopped by the user", 130)
        if isinstance(
            code := getattr(error, "exit_code", None), int
        ):  # the parser's way of leaving
            return code
        raise
    return result if isinstance(result, int) else 0


def _parser_message(error: Any, arguments: list[str], command: Any) -> str:
    """The parser's complaint, with the nearest command where there is none of that name."""
    from repfl.bench.errors import nearest

    text = " ".join(error.format_message().split())
    if text.startswith("No such command") and arguments and "mean" not in text:
        text += f" {nearest(arguments[0], command.commands)}"
    context = getattr(error, "ctx", None)
    if context and context.parent:
        return f"{context.command_path.removeprefix('repfl').strip()}: {text}"
    return text


def _unexpected(error: Exception) -> int:
    """A fault of ours: its type and place on one line, the details in a file for whoever mends
    it.
    """
    from repfl.bench.errors import FAILED

    datum = type(error).__name__
    if datum == "DataError":
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
        f"internal error, {datum}: {one_line(error)} (details in {file.name}; please report it)",
        FAILED,
    )


if __name__ == "__main__":
    main()
