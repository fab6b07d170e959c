"""`millstream explain`: how a view runs, before or after it exists."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from millstream.cli.console import OUT
from millstream.cli.formats import Format
from millstream.cli.script import show_outcome
from millstream.cli.session import opened, read_text, wait_for_spark
from millstream.cli.show import show_result
from millstream.engine.surface.explaining import explain_script
from millstream.model.errors import MillstreamError
from millstream.sql.render import quote_name


def explain(what: str, data: Path) -> None:
    path = Path(what)
    if path.is_file():
        _explain_script(path)
    elif path.suffix == ".sql":
        raise MillstreamError("FILE_NOT_READABLE", f"there is no file {what}")
    else:
        with opened(data, must_exist=True) as db:
            wait_for_spark(db)
            (plan,) = db.execute(f"EXPLAIN {quote_name(what)}")
            show_outcome(plan, Format.TABLE)


def _explain_script(path: Path) -> None:
    text = read_text(path)
    views = 0
    for plan in explain_script(text, str(path)):
        if views:
            OUT.print()
        show_result(plan)
        views += 1
    if not views:
        OUT.print(Text(f"{path} defines no view"))
