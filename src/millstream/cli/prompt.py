"""`millstream sql` at a terminal: type a statement, see the answer, while the engine runs.

Owns the prompt: history, completion, when a statement is complete, and what Ctrl-C and Ctrl-D do.
An error never ends the session.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
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

from millstream.cli.console import ERR, OUT, note, print_error, print_unexpected, state_directory
from millstream.cli.formats import Format
from millstream.cli.progress import progress_line, progress_of, rows_waiting
from millstream.cli.script import carry_out
from millstream.cli.session import opened, wait_for_spark
from millstream.cli.show import show_result
from millstream.cli.topics import follow
from millstream.engine.define.catalog import StreamEntry
from millstream.engine.surface.database import Database
from millstream.engine.surface.result import Result
from millstream.model.errors import MillstreamError
from millstream.sql import parse_script
from millstream.sql.dialect import StreamSQL
from millstream.sql.render import quote_name
from millstream.sql.statements import CreateView, Delete, Explain, Insert, Statement, Subscribe

_WORDS = """
    ALLOWED LATENESS ACCUMULATING AND AS BETWEEN BY CASE CAST COUNT_WINDOW CREATE DESC DESCRIBE DISCARDING DISTINCT
    DROP EARLY ELSE EMIT END EPOCH EPOCHS EVERY EXISTS EXPLAIN FILTER FROM GROUP HAVING HOP IF IN INSERT INTERVAL
    INTO IS JOIN KEY LATE LIKE LIMIT MATERIALIZED NOT NULL ON OR ORDER PARTITION PRIMARY PROCTIME REPLACE RETRACTING
    ROW ROWS SELECT SESSION SHOW SINKS SLIDE STREAM STREAMS SUBSCRIBE TABLE TABLES THEN TUMBLE VALUES VIEW VIEWS
    WATERMARK WHEN WHERE WINDOW WITH
    BIGINT BOOLEAN DATE DOUBLE INT STRING TIMESTAMP SECONDS MINUTES HOURS DAYS
    avg count max min sum collect_list approx_count_distinct window_start window_end
"""

_HELP = r"""Statements end with ';' and may take several lines.
  SHOW STREAMS | TABLES | VIEWS | EPOCHS;   DESCRIBE name;   SHOW CREATE name;   EXPLAIN view;
  CREATE STREAM …;   CREATE MATERIALIZED VIEW … EMIT …;   INSERT INTO stream VALUES …;   SELECT …;
  SUBSCRIBE view;     the changes as they come, until Ctrl-C
  \s status   \? help   \q leave (or Ctrl-D)"""

_LAST_WORD = re.compile(r"\w*$")
_INSERT_PATIENCE_SECONDS = 10.0


def run_prompt(data: Path, format: Format) -> None:
    with opened(data) as db:
        db.start()
        OUT.print(Text.assemble(("Millstream", "bold"), f" on {data} · \\? for help, \\q to leave"))
        Prompt(db, format).run()
        try:
            db.stop()
        except MillstreamError as error:
            print_error(error)


class Prompt:
    """The loop of one session."""

    def __init__(self, db: Database, format: Format) -> None:
        self._db = db
        self._format = format
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
            return f" {progress_line(progress_of(self._db))} "
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
        match text.rstrip(";").lower():
            case "\\q" | "exit" | "quit":
                return False
            case "\\?" | "\\h" | "help":
                OUT.print(Text(_HELP))
            case "\\s":
                OUT.print(Text(progress_line(progress_of(self._db))))
            case command if command.startswith("\\"):
                raise MillstreamError("UNKNOWN_COMMAND", f"there is no command {text}", hint="\\? lists them")
            case _:
                for statement in parse_script(text):
                    self._carry_out(statement, text)
        return True

    def _carry_out(self, statement: Statement, text: str) -> None:
        if isinstance(statement, Subscribe):
            view = self._db.catalog.view(statement.name, statement.position).name
            note("Ctrl-C stops")
            follow(self._db, view, statement.from_epoch, self._format)
            return
        if isinstance(statement, CreateView | Explain | Insert | Delete) and not self._is_ready:
            # The prompt is there before Spark is; only these have to wait for it.
            wait_for_spark(self._db)
            self._is_ready = True
        started = time.perf_counter()
        outcome = carry_out(self._db, statement, text, "<sql>")
        message = outcome.message
        if isinstance(statement, Insert | Delete):
            message = f"{message}{self._wait_until_read(statement.target)}"
        if message:
            OUT.print(Text(message))
        if isinstance(outcome.result, Result):
            show_result(outcome.result, self._format)
            if self._format is Format.TABLE:
                OUT.print(Text(f"{(time.perf_counter() - started) * 1000:,.0f} ms", style="dim"))

    def _wait_until_read(self, name: str) -> str:
        """Let the rows reach the views, so that the next SELECT sees them; but not for long."""
        entry = self._db.catalog.find(name)
        until = time.monotonic() + _INSERT_PATIENCE_SECONDS
        while isinstance(entry, StreamEntry) and rows_waiting(self._db, entry):
            if time.monotonic() > until or self._db.status()["failure"] is not None:
                return ", to be processed"
            time.sleep(0.01)
        return f", in epoch {self._db.store.last_epoch()}"

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

    def __init__(self, db: Database) -> None:
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
        names = {entry.name for entry in self._db.catalog} | set(self._db.catalog.readable().values())
        for entry in self._db.catalog.streams():
            names |= set(entry.stream.schema.names())
        return sorted(names)


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
