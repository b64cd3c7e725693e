"""The one boundary: what happens inside becomes a line on stderr and an exit code here, and nowhere else."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from calcli.cli.environment import is_set
from calcli.cli.screen import Screen
from calcli.cli.streams import flush, say, silence
from calcli.errors import CalcliError, ClosedPipeError, FileSystemError

PROGRAM = "calcli"
_BUG = 70
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run calcli and return its exit code.

    Parameters
    ----------
    arguments
        The words after the program's name; those of this process if left out.
    """
    ours = arguments is None
    words = sys.argv[1:] if arguments is None else list(arguments)
    if ours:
        # Starting up makes many objects and no garbage. Not to look for it saves a sixth of the time of `--help`.
        gc.set_threshold(100_000)
    for stream in (sys.stdout, sys.stderr):
        # A letter that the terminal's encoding does not have must not end a command.
        getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
    try:
        code = _run(words)
        flush()
    except BaseException as error:  # a panic of polars is not an Exception
        code = _report(error, words)
    if ours:
        gc.freeze()  # the interpreter need not look for it on its way out either
        if code != 0:
            _leave(code)
    return code


def _leave(code: int) -> NoReturn:
    """End the process at once.

    Threads of polars that were at work when something went wrong may still call back, and abort the process if they
    find an interpreter that is half gone.
    """
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _run(words: list[str]) -> int:
    # Imported here, so that Ctrl-C during the imports is met like any other.
    import typer

    from calcli.cli.app import build

    command = build()
    if os.environ.get("_CALCLI_COMPLETE"):
        command(prog_name=PROGRAM)  # the shell asks for completions: Typer answers and exits
    if not is_set("--debug", words) and not sys.warnoptions:
        _hide_warnings()
    try:
        # Not `command(words, standalone_mode=False)`: that turns a closed pipe into exit code 1, which means "no" here.
        with command.make_context(PROGRAM, words) as context:
            command.invoke(context)
    except typer.Exit as leave:
        return leave.exit_code
    return 0


def _hide_warnings() -> None:
    """What numpy or polars warn of is for programmers; calcli has its own words for what concerns its users.

    So is what Python cannot raise: pyarrow calls back about a bad row of a CSV file, stumbles over its bytes itself,
    and says what is wrong with the file all the same.
    """
    import warnings

    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None


def _report(error: BaseException, words: list[str]) -> int:
    """Say what went wrong, in one line, and give the exit code."""
    code, message = _meaning(error)
    try:
        flush()  # what was printed before it went wrong
    except (CalcliError, ValueError):
        silence(sys.stdout)
    if code != 0 and is_set("--debug", words):
        import traceback

        say("".join(traceback.format_exception(error)).rstrip())
    if message is not None:
        screen = Screen.of(sys.stderr, no_color=is_set("--no-color", words))
        say(f"{screen.bad(f'{PROGRAM}:')} {screen.fit(_one_line(message))}")
    return code


def _meaning(error: BaseException) -> tuple[int, str | None]:  # noqa: PLR0911 a table of what can happen
    """The exit code and the line; None where there is nothing to say."""
    match error:
        case ClosedPipeError() | BrokenPipeError():
            return ClosedPipeError.exit_code, None  # as `cat | head` ends: silently
        case CalcliError():
            return error.exit_code, str(error)
        case KeyboardInterrupt():
            return _INTERRUPTED, "interrupted"
        case SystemExit():
            return _exit_code(error), None
        case OSError():
            return FileSystemError.exit_code, _refusal(error)
        case MemoryError():
            # Like a full disk: not the user's mistake and not ours, the machine is too small.
            return FileSystemError.exit_code, "out of memory; use fewer rows, fewer features, or a larger machine"
    from calcli.cli.usage import explained

    mistake = explained(error)
    if mistake is not None:
        return mistake.exit_code, str(mistake)
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return _BUG, f"this is a bug in calcli, not a mistake of yours: {what}; --debug shows where, please report it"


def _exit_code(error: SystemExit) -> int:
    """Typer leaves with a number once it has installed or shown completions."""
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else _BUG


def _refusal(error: OSError) -> str:
    """What the operating system said, about which file."""
    said = error.strerror or str(error) or type(error).__name__
    return said if error.filename is None else f"{error.filename}: {said}"


def _one_line(message: str) -> str:
    """A message as one line of visible letters: names in it can hold line ends, or codes that move the cursor."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in message)
