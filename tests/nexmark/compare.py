"""Comparing relations of any size, in DuckDB.

Rows are multisets. Whole numbers, texts and instants must be equal; fractions (DOUBLE and DECIMAL)
may differ by one part in a billion, because an average is rounded after another number of steps in
every system.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

_TOLERANCE = 1e-9


def difference(actual: pa.Table, expected: pa.Table) -> str | None:
    """Why two relations are not the same multiset of rows; None if they are."""
    if actual.column_names != expected.column_names:
        return f"columns {actual.column_names} instead of {expected.column_names}"
    fractions = [name for name in actual.column_names if _is_fraction(actual, name) or _is_fraction(expected, name)]
    exact = [name for name in actual.column_names if name not in fractions]
    with duckdb.connect() as connection:
        for side, table in (("actual", actual), ("expected", expected)):
            connection.register(f"{side}_rows", table)
            columns = [f'"{name}"' for name in exact] + [f'"{name}"::DOUBLE AS "{name}"' for name in fractions]
            order = ", ".join(f'"{name}"' for name in [*exact, *fractions])
            connection.execute(
                f"CREATE TABLE {side} AS SELECT {', '.join(columns)}, row_number() OVER (ORDER BY {order}) AS __n "
                f"FROM {side}_rows"
            )
        differs = [f'a."{name}" IS DISTINCT FROM e."{name}"' for name in exact]
        differs += [
            f'(a."{name}" IS NULL) <> (e."{name}" IS NULL) OR '
            f'abs(a."{name}" - e."{name}") > {_TOLERANCE} * greatest(1, abs(e."{name}"))'
            for name in fractions
        ]
        wrong = connection.execute(
            f"SELECT a, e FROM actual a FULL JOIN expected e ON a.__n = e.__n "
            f"WHERE a.__n IS NULL OR e.__n IS NULL OR {' OR '.join(differs)} ORDER BY coalesce(a.__n, e.__n)"
        ).fetchone()
    if wrong is None:
        return None
    counts = f"{actual.num_rows} rows, should be {expected.num_rows}"
    return f"{counts}; the first that differs\n  is        {wrong[0]}\n  should be {wrong[1]}"


def read_tsv(path: Path, like: pa.Table) -> pa.Table:
    """Expected rows from a file, with the types of a relation; decimals as DOUBLE."""
    types = {
        field.name: "DOUBLE" if _is_fraction(like, field.name) else _TYPES.get(str(field.type), "VARCHAR")
        for field in like.schema
    }
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(
            "SELECT * FROM read_csv(?, delim = '\t', header = true, columns = ?, quote = '')",
            params=[str(path), {name: types[name] for name in columns_of(path)}],
        ).to_arrow_table()


def columns_of(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as lines:
        return next(lines).rstrip("\n").split("\t")


_TYPES = {"int64": "BIGINT", "int32": "INTEGER", "timestamp[us]": "TIMESTAMP", "string": "VARCHAR"}


def _is_fraction(table: pa.Table, name: str) -> bool:
    type_ = table.schema.field(name).type
    return bool(pa.types.is_floating(type_) or pa.types.is_decimal(type_))
