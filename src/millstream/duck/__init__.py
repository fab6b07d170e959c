"""DuckDB's dialect: trees printed as SQL that means to DuckDB what it means to Spark; shared by store and kernel."""

from millstream.duck.guards import guarded_sql, is_condition, with_truths
from millstream.duck.printing import quote, store_sql
from millstream.duck.probes import probes

__all__ = ["guarded_sql", "is_condition", "probes", "quote", "store_sql", "with_truths"]
