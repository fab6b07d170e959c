"""The commands of the prompt that begin with a backslash."""

from __future__ import annotations

from rich.text import Text

from millstream.api import Connection, Result
from millstream.cli.console import OUT
from millstream.cli.formats import Format
from millstream.cli.progress import progress_line
from millstream.cli.show import show_result
from millstream.model.errors import MillstreamError
from millstream.sql.render import quote_name

HELP = r"""Statements end with ';' and may take several lines.
  SHOW STREAMS | TABLES | VIEWS | SINKS | FUNCTIONS | EPOCHS;   DESCRIBE name;   SHOW CREATE name;   EXPLAIN view;
  CREATE STREAM …;   CREATE MATERIALIZED VIEW … EMIT …;   INSERT INTO stream VALUES …;   SELECT …;
  SUBSCRIBE view;     the changes as they come, until Ctrl-C
Commands
  \d           streams, tables and views        \d name      columns of one
  \ds \dt \dv  streams; tables; views            \df          functions
  \sf name     the statement that created it    \e           epochs, the last 20
  \s           status                           \? \q        help; leave (or Ctrl-D)"""

_SHOWS = {
    r"\ds": "SHOW STREAMS",
    r"\dt": "SHOW TABLES",
    r"\dv": "SHOW VIEWS",
    r"\df": "SHOW FUNCTIONS",
}
_COMMANDS = (*_SHOWS, r"\d", r"\sf", r"\e", r"\s", r"\?", r"\h", r"\q")
_EPOCHS = 20


def run_command(db: Connection, text: str, format: Format) -> bool:
    """Run a command; False to leave the prompt."""
    command, _, argument = text.strip().partition(" ")
    argument = argument.strip()
    match command.lower():
        case "\\q" | "exit" | "quit":
            return False
        case "\\?" | "\\h" | "help":
            OUT.print(Text(HELP))
        case "\\s":
            OUT.print(Text(progress_line(db.status())))
        case "\\d" if argument:
            _show(db, f"DESCRIBE {quote_name(argument)}", format)
        case "\\d":
            _list(db)
        case "\\sf" if argument:
            _show(db, f"SHOW CREATE {quote_name(argument)}", format)
        case "\\e":
            show_result(db.epochs(max(db.status()["epoch"] - _EPOCHS, 0)), format)
        case name if name in _SHOWS:
            _show(db, _SHOWS[name], format)
        case _:
            raise MillstreamError(
                "UNKNOWN_COMMAND",
                f"there is no command {text}",
                hint="it needs a name" if command.lower() in _COMMANDS else r"\? lists them",
            )
    return True


def _show(db: Connection, text: str, format: Format) -> None:
    (shown,) = db.execute(text)
    if isinstance(shown, Result):
        show_result(shown, format)


def _list(db: Connection) -> None:
    """Everything there is, a line each."""
    status = db.status()
    lines = [("table" if s["is_table"] else "stream", s["name"], f"from {s['source']}") for s in status["streams"]]
    lines += [("view", view["name"], view["state"]) for view in status["views"]]
    if not lines:
        OUT.print(Text("there is nothing yet: CREATE STREAM or CREATE TABLE is the first step", style="dim"))
        return
    width = max(len(name) for _, name, _ in lines)
    for kind, name, about in lines:
        OUT.print(Text(f"{kind:<6}  {name:<{width}}  {about}"))
