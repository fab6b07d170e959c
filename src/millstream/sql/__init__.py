"""StreamSQL: text → statements → text again."""

from millstream.sql.functions import AGGREGATES, check_query
from millstream.sql.parse import parse_script, parse_statement
from millstream.sql.positions import position_of
from millstream.sql.render import render
from millstream.sql.user_calls import bind_calls, called_names, spark_sql
from millstream.sql.windows import WindowCall, read_window_call

__all__ = [
    "AGGREGATES",
    "WindowCall",
    "bind_calls",
    "called_names",
    "check_query",
    "parse_script",
    "parse_statement",
    "position_of",
    "read_window_call",
    "render",
    "spark_sql",
]
