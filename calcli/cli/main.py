"""The boundary of the program: every exception becomes a line on stderr and an exit code here."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from calcli.cli.process import flush, is_set, keep_stderr, prepare_libraries, silence, write_stderr
from calcli.cli.screen import Screen
from calcli.errors import CalcliError, ClosedPipeError, FileSystemError, UsageError

if TYPE_CHECKING:
    from types import FrameType

PROGRAM = "calcli"
_BUG = 70
_COMPLETE = "_CALCLI_COMPLETE"
_SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run calcli and return its exit code; by default the words after its name are those of this process."""
    own_process = arguments is None
    words = sys.argv[1:] if arguments is None else list(arguments)
    interrupts: list[int] = []
    try:
        if own_process:
            _prepare(words, interrupts)
        for stream in (sys.stdout, sys.stderr):
            # A letter that the encoding of the terminal lacks must not raise.
            getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
        code = _run(words)
        flush()
    except BaseException as error:  # a panic of polars is not an Exception
        code = _report(error, words, interrupted=bool(interrupts))
    if own_process and (code != 0 or not is_set("--debug", words)):  # a profiler waits for the ordinary end
        _leave(code)
    return code


def _prepare(words: list[str], interrupts: list[int]) -> None:
    """Make the process ready for a command."""
    _note_interrupts(interrupts)
    # Start-up makes many objects and no garbage: fewer collections save a sixth of the time of `--help`.
    gc.set_threshold(100_000)
    prepare_libraries()
    if is_set("--debug", words):
        _show_logs()
    else:
        keep_stderr()


def _note_interrupts(noted: list[int]) -> None:
    """Note each Ctrl-C before it is raised: a library in C that it interrupts may raise another error in its place."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored, as of a job behind `&`
        signal.signal(signal.SIGINT, interrupt)


def _leave(code: int) -> NoReturn:
    """End the process at once, after what was registered for its exit.

    Taking the interpreter apart takes longer than `--version` does. Threads of polars that were at work when something
    went wrong may still call back, and abort the process if they find an interpreter that is half gone.
    """
    with contextlib.suppress(KeyboardInterrupt):  # what was to be done is done
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
    if asked := os.environ.get(_COMPLETE):
        _check_completion(asked)
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


def _show_logs() -> None:
    """Show what libraries said, which calcli logs."""
    import logging

    logger = logging.getLogger(PROGRAM)
    logger.addHandler(logging.StreamHandler())
    logger.setLevel(logging.DEBUG)


def _check_completion(asked: str) -> None:
    """Refuse to complete a line for no shell, or one that it did not send: Typer would exit with 1, or raise."""
    action, _, shell = asked.partition("_")
    if action not in ("source", "complete") or shell not in _SHELLS:
        raise UsageError(
            f"{_COMPLETE} is {asked!r}, which is unknown; known are complete_{', complete_'.join(_SHELLS)}",
            hint=f"unset {_COMPLETE}",
        )
    sent = os.environ.get("COMP_WORDS"), os.environ.get("COMP_CWORD", "")
    if asked == "complete_bash" and (sent[0] is None or not sent[1].isdecimal()):
        raise UsageError(
            f"{_COMPLETE} is set without COMP_WORDS and COMP_CWORD, which bash sends with it",
            hint=f"unset {_COMPLETE}",
        )


def _hide_warnings() -> None:
    """Hide warnings of numpy and polars, and exceptions that Python cannot raise: they are for programmers.

    Such an exception comes from pyarrow's callback about a bad row of a CSV file, which fails on bytes that are not
    UTF-8; pyarrow still reports the error in the file.
    """
    import warnings

    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None


def _report(error: BaseException, words: list[str], *, interrupted: bool) -> int:
    """Write the error as one line, and return the exit code; what comes of Ctrl-C is no error of its own."""
    code, message = _explanation(KeyboardInterrupt() if interrupted else error, words)
    try:
        flush()  # what was printed before it went wrong
    except (CalcliError, ValueError):
        silence(sys.stdout)
    screen = Screen.of(sys.stderr, no_color=is_set("--no-color", words))
    if code != 0 and is_set("--debug", words):
        import traceback

        write_stderr(screen.fit("".join(traceback.format_exception(error)).rstrip().splitlines()))
    if message is not None:
        write_stderr(screen.fit([f"{screen.bad(f'{PROGRAM}:')} {message}"]))
    return code


def _explanation(error: BaseException, words: Sequence[str]) -> tuple[int, str | None]:  # noqa: PLR0911 a table of what can happen
    """The exit code and the line; None for no line."""
    match error:
        case ClosedPipeError() | BrokenPipeError():
            return ClosedPipeError.exit_code, None  # as `cat | head` ends: silently
        case CalcliError():
            return error.exit_code, str(error)
        case KeyboardInterrupt():
            return _INTERRUPTED, "interrupted"
        case SystemExit(code=code):  # Typer exits after it has installed or shown completions
            return (code or 0) if isinstance(code, int | None) else _BUG, None
        case OSError(filename=name):
            reason = error.strerror or str(error) or type(error).__name__
            return FileSystemError.exit_code, reason if name is None else f"{name}: {reason}"
        case MemoryError():
            # Like a full disk: not the user's mistake and not ours, the machine is too small.
            return FileSystemError.exit_code, "out of memory; use fewer rows, fewer features, or a larger machine"
    from calcli.cli.usage import explained

    mistake = explained(error, words)
    if mistake is not None:
        return mistake.exit_code, str(mistake)
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return _BUG, f"this is a bug in calcli, not a mistake of yours: {text}; --debug shows where, please report it"
