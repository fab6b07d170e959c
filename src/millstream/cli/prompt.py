"""`millstream sql` at a terminal: type a statement, see the answer, while the engine runs.

Owns the prompt: history, completion, when a statement is complete, and what Ctrl-C and Ctrl-D do.
An error never ends the session.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]
from rich.text import Text

from millstream.api import Connection, Done, Result
from millstream.cli.backslash import run_command
from millstream.cli.console import ERR, OUT, note, print_error, print_unexpected, state_directory
from millstream.cli.formats import Format
from millstream.cli.progress import find_stream, progress_line
from millstream.cli.script import Step, read_steps, run_step, words
from millstream.cli.session import has_data, opened, wait_for_spark
from millstream.cli.show import show_result
from millstream.cli.topics import follow, known_view
from millstream.model.errors import MillstreamError
from millstream.sql.dialect import StreamSQL
from millstream.sql.render import quote_name
from millstream.sql.statements import Subscribe

_WORDS = """
    ALLOWED LATENESS ACCUMULATING AND AS BETWEEN BY CASE CAST COUNT_WINDOW CREATE DESC DESCRIBE DISCARDING DISTINCT
    DROP EARLY ELSE EMIT END EPOCH EPOCHS EVERY EXISTS EXPLAIN FILTER FROM GROUP HAVING HOP IF IN INSERT INTERVAL
    INTO IS JOIN KEY LATE LIKE LIMIT MATERIALIZED NOT NULL ON OR ORDER PARTITION PRIMARY PROCTIME REPLACE RETRACTING
    ROW ROWS SELECT SESSION SHOW SINKS SLIDE STREAM STREAMS SUBSCRIBE TABLE TABLES THEN TUMBLE VALUES VIEW VIEWS
    WATERMARK WHEN WHERE WINDOW WITH
    BIGINT BOOLEAN DATE DOUBLE INT STRING TIMESTAMP SECONDS MINUTES HOURS DAYS
    avg count max min sum collect_list approx_count_distinct window_start window_end
"""

_LAST_WORD = re.compile(r"\w*$")
_INSERT_PATIENCE_SECONDS = 10.0


def run_prompt(data: Path, format: Format) -> None:
    is_new = not has_data(data)
    # Spark starts when something needs it: reading does not.
    with opened(data, eager=False) as db:
        db.start()
        new = " (new)" if is_new else ""
        OUT.print(Text.assemble(("Millstream", "bold"), f" on {data}{new} · \\? for help, \\q to leave"))
        Prompt(db, format).run()
        try:
            db.stop()
        except MillstreamError as error:
            print_error(error)


class Prompt:
    """The loop of one session."""

    def __init__(self, db: Connection, format: Format) -> None:
        self._db = db
        self._format = format
        self._warming: threading.Thread | None = None
        self._is_ready = False
        self._session: PromptSession[str] = PromptSession(
            history=_history(),
            completer=NameCompleter(db),
            complete_while_typing=False,
            lexer=PygmentsLexer(SqlLexer),
            multiline=True,
            prompt_continuation=lambda width, line, wrapped: "…".rjust(width - 1) + " ",
            key_bindings=_bindings(),
            bottom_toolbar=self._toolbar,
            refresh_interval=1.0,
        )

    def _toolbar(self) -> str:
        try:
            return f" {progress_line(self._db.status())} "
        except MillstreamError as error:
            return f" {error.message} "

    def run(self) -> None:
        while True:
            try:
                text = self._session.prompt("millstream> ").strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            try:
                if not self._answer(text):
                    return
            except MillstreamError as error:
                print_error(error)
            except KeyboardInterrupt:
                ERR.print()
            except Exception as error:
                print_unexpected(error, debug=False)
            self._report_failure()

    def _answer(self, text: str) -> bool:
        """Do what a text says; False to leave."""
        if text.rstrip(";").lower() in ("exit", "quit", "help") or text.startswith("\\"):
            return run_command(self._db, text.rstrip(";"), self._format)
        for step in read_steps(text, "<sql>"):
            self._run_step(step)
        return True

    def _run_step(self, step: Step) -> None:
        if isinstance(step.statement, Subscribe):
            view = known_view(self._db, step.statement)
            note("Ctrl-C stops")
            follow(self._db, view, step.statement.from_epoch, self._format)
            return
        if (step.needs_spark or step.brings_work) and not self._is_ready:
            # The prompt is there before Spark is; only these have to wait for it.
            wait_for_spark(self._db)
            self._is_ready = True
        started = time.perf_counter()
        outcome = run_step(self._db, step)
        if step.defines_input:
            self._warm_up()
        if isinstance(outcome, Done):
            for notice in outcome.notices:
                note(notice)
            read = self._wait_until_read(outcome.name) if outcome.rows is not None else ""
            OUT.print(Text(f"{words(outcome)}{read}"))
        elif isinstance(outcome, Result):
            show_result(outcome, self._format)
            if self._format is Format.TABLE:
                OUT.print(Text(f"{(time.perf_counter() - started) * 1000:,.0f} ms", style="dim"))

    def _warm_up(self) -> None:
        """Have Spark start while the user types: where there is a stream, a view comes next."""
        if self._warming is None and not self._is_ready:
            self._warming = threading.Thread(target=self._start_spark, name="prompt-warm-up", daemon=True)
            self._warming.start()

    def _start_spark(self) -> None:
        with suppress(MillstreamError):  # raised again to the statement that needs it
            self._db.warm_up()

    def _wait_until_read(self, name: str) -> str:
        """Let the rows reach the views, so that the next SELECT sees them; but not for long."""
        until = time.monotonic() + _INSERT_PATIENCE_SECONDS
        while (status := self._db.status())["failure"] is None and time.monotonic() <= until:
            stream = find_stream(status, name)
            if stream is None or not stream["waiting"]:
                return f", in epoch {status['epoch']}"
            self._db.wait_for_epoch(status["epoch"], 0.01)
        return ", to be processed"

    def _report_failure(self) -> None:
        """Processing that failed in the background is shown once and tried again."""
        if self._db.status()["failure"] is None:
            return
        try:
            self._db.stop()
        except MillstreamError as error:
            print_error(error)
            note("processing had stopped; trying again")
        self._db.start()


class NameCompleter(Completer):
    """Keywords, relations and their columns."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        word = _LAST_WORD.search(document.text_before_cursor)[0]  # type: ignore[index]
        if not word:
            return
        upper = word != word.lower()
        for name in self._names():
            if name.lower().startswith(word.lower()):
                yield Completion(quote_name(name), start_position=-len(word), display_meta="relation")
        for keyword in _WORDS.split():
            if keyword.lower().startswith(word.lower()):
                shown = keyword if upper or keyword.islower() else keyword.lower()
                yield Completion(shown, start_position=-len(word))

    def _names(self) -> list[str]:
        status = self._db.status()
        names = {view["name"] for view in status["views"]}
        for stream in status["streams"]:
            name = stream["name"]
            names |= {name, f"{name}__late", f"{name}__dead"} | self._columns(name)
        return sorted(names)

    def _columns(self, name: str) -> set[str]:
        (described,) = self._db.execute(f"DESCRIBE {quote_name(name)}")
        return {row["column"] for row in described.rows()} if isinstance(described, Result) else set()


def is_complete(text: str) -> bool:
    """Whether a text is ready to be run: a command, nothing, or statements with their last semicolon."""
    bare = text.strip()
    if not bare or bare.startswith("\\") or bare.lower() in ("exit", "quit", "help"):
        return True
    try:
        tokens = StreamSQL().tokenizer().tokenize(text)
    except Exception:
        return False  # inside a string, a quoted name or a comment
    return not tokens or tokens[-1].text == ";"


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @bindings.add("c-c")
    def _clear(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            get_app().exit(exception=KeyboardInterrupt(), style="class:aborting")

    return bindings


def _history() -> History:
    try:
        state_directory().mkdir(parents=True, exist_ok=True)
        path = state_directory() / "history"
        path.touch()
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
