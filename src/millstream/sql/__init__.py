"""StreamSQL: text → statements → text again."""

from millstream.sql.functions import AGGREGATES, check_query
from millstream.sql.guards import guarded_sql, is_condition, with_truths
from millstream.sql.parse import parse_script, parse_statement
from millstream.sql.positions import position_of
from millstream.sql.render import render
from millstream.sql.store_sql import quote, store_sql
from millstream.sql.user_calls import bind_calls, called_names, spark_sql
from millstream.sql.windows import WindowCall, read_window_call

__all__ = [
    "AGGREGATES",
    "WindowCall",
    "bind_calls",
    "called_names",
    "check_query",
    "guarded_sql",
    "is_condition",
    "parse_script",
    "parse_statement",
    "position_of",
    "quote",
    "read_window_call",
    "render",
    "spark_sql",
    "store_sql",
    "with_truths",
]
