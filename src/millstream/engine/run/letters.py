"""The rows that an epoch sets aside, fetched before it is committed: dead, late and failed ones.

Owns the one step between a read and its commit that may run jobs: whole rows are asked for only
where the judgement says that there are some.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.plan.compute import OpenRows
from millstream.store.commands import StreamPart, ViewPart


def fetch_dead(part: StreamPart, opened: OpenRows) -> StreamPart:
    """A stream's share of an epoch with its dead rows."""
    return replace(part, dead_rows=opened.dead_rows()) if part.dead else part


def fetch_set_aside(part: ViewPart, opened: OpenRows) -> ViewPart:
    """A view's share of an epoch with its late and its failed rows."""
    if part.late:
        part = replace(part, late_rows=opened.late_rows(part.view, part.before))
    if part.failed:
        part = replace(part, failed_rows=opened.failed_rows(part.view))
    return part
