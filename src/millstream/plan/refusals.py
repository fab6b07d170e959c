"""Refusals that the planner itself recovers from, told apart by class."""

from __future__ import annotations

from millstream.model.errors import MillstreamError


class NotIncrementalError(MillstreamError):
    """One select over one stream cannot do this by itself; a query over its kept rows may."""


class MisplacedTriggerError(MillstreamError):
    """The trigger does not suit this part of a query; it may suit another."""
