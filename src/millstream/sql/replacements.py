"""What to write in StreamSQL instead of what other dialects have: the hints of refusals, as data."""

from __future__ import annotations

_UPSERT = "INSERT INTO a table replaces the row of the same primary key"
_LIST = "array_join(array_sort(collect_list(x)), ',')"
_WINDOW = "windows are table functions: FROM TUMBLE(stream, ts, INTERVAL 10 SECONDS) GROUP BY window_start"
_WINDOW_START = "window_start, a column of FROM TUMBLE(…), HOP(…) and SESSION(…)"
_WINDOW_END = "window_end, a column of FROM TUMBLE(…), HOP(…) and SESSION(…)"
_PERCENTILE = "percentiles have no incremental form here; min, max, avg and stddev have one"
_GENERATED = "STRING or BIGINT, with a key that the producer gives: nothing here generates keys"

STATEMENTS: dict[str, str] = {
    "UPDATE": f"there is no UPDATE: {_UPSERT}",
    "MERGE": f"there is no MERGE: {_UPSERT}",
    "UPSERT": _UPSERT,
    "REPLACE": _UPSERT,
    "TRUNCATE": "DELETE FROM a table removes its rows",
    "USE": "a data directory holds one database: name it with --data or ms.connect",
    "COPY": "CREATE STREAM … WITH (source = 'files', path = '…') reads files; db.query(…).to_arrow() writes results",
    "LOAD": "CREATE STREAM … WITH (source = 'files', path = '…') reads files",
    "ANALYZE": "there are no statistics to collect",
    "REFRESH": "a view is always up to date; ALTER MATERIALIZED VIEW v REBUILD computes it again",
    "BEGIN": "each statement is a transaction of its own",
    "COMMIT": "each statement is a transaction of its own",
    "ROLLBACK": "each statement is a transaction of its own",
    "GRANT": "whoever may write the data directory may do everything",
}
"""By the first word of a statement."""

OBJECTS: dict[str, str] = {
    "INDEX": "views and tables need no index",
    "DATABASE": "a data directory is a database: name it with --data or ms.connect",
    "SCHEMA": "a database has one schema",
    "TEMPORARY": "there are no temporary relations; WITH names a query within a query",
    "TEMP": "there are no temporary relations; WITH names a query within a query",
    "EXTERNAL": "CREATE STREAM … WITH (source = 'files', path = '…')",
    "SOURCE": "CREATE STREAM … WITH (source = '…')",
    "CONTINUOUS": "CREATE MATERIALIZED VIEW: every view is continuous",
}
"""By what follows CREATE."""

FUNCTIONS: dict[str, str] = {
    "window": _WINDOW,
    "session_window": "windows are table functions: FROM SESSION(stream PARTITION BY key, ts, INTERVAL 10 MINUTES)",
    **dict.fromkeys(("tumble_start", "hop_start", "session_start", "windowstart"), _WINDOW_START),
    **dict.fromkeys(("tumble_end", "hop_end", "session_end", "windowend"), _WINDOW_END),
    **dict.fromkeys(("string_agg", "group_concat", "listagg"), _LIST),
    **dict.fromkeys(("median", "percentile", "percentile_cont", "percentile_disc"), _PERCENTILE),
    **dict.fromkeys(("percentile_approx", "approx_percentile"), _PERCENTILE),
    "unix_timestamp": "unix_seconds(ts)",
    "to_unix_timestamp": "unix_seconds(ts)",
    "timestampdiff": "unix_seconds(b) - unix_seconds(a), or datediff(b, a) in days",
    "explode_outer": "LATERAL VIEW OUTER explode(…)",
    "posexplode_outer": "LATERAL VIEW OUTER posexplode(…)",
}
"""By the name of a function, in lower case."""

TYPES: dict[str, str] = {
    **dict.fromkeys(("serial", "bigserial", "smallserial", "identity"), _GENERATED),
    "uuid": "STRING",
    **dict.fromkeys(("json", "jsonb", "variant"), "STRING, and get_json_object(column, '$.field')"),
    "datetime": "TIMESTAMP, which is in UTC",
    "time": "STRING, or a TIMESTAMP with its day",
    "interval": "BIGINT, in microseconds",
    **dict.fromkeys(("varbinary", "bytea", "blob"), "BINARY"),
    **dict.fromkeys(("hugeint", "uint64", "unsigned"), "BIGINT, or DECIMAL(38, 0)"),
}
"""By the name of a type, in lower case."""

UNITS: dict[str, str] = {
    **dict.fromkeys(("min", "mins"), "MINUTE"),
    **dict.fromkeys(("sec", "secs"), "SECOND"),
    **dict.fromkeys(("hr", "hrs"), "HOUR"),
    **dict.fromkeys(("msec", "msecs", "millis"), "MILLISECOND"),
    **dict.fromkeys(("usec", "usecs", "micros"), "MICROSECOND"),
}
"""By an abbreviation, in lower case."""
