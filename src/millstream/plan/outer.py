"""Outer joins of streams whose partners are bounded in time.

Owns when a row that lacks a partner is known to lack it, and how long the rows of each stream matter
for that. A row of the result is told by which inputs are *present* in it; the others are missing. It is
settled once the watermark has passed every instant at which a row of a missing input could still come
and match: then it appears, once.

What a condition of ON says about two event times holds for a row if both inputs are present, and so is
the input that the condition was written for. Bounds are therefore only derived from conditions of inputs
that must be present.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import isfinite

from sqlglot import exp

from millstream.duck import guarded_sql
from millstream.plan.bounds import Clock, Column, time_bounds
from millstream.plan.maintenance import conjuncts
from millstream.plan.nodes import Missing, OuterRows

_MOST_INPUTS = 8
"""Each optional input doubles the kinds of rows that a join can have."""


@dataclass
class OuterJoin:
    """The joins of one select over kept streams, at least one of them an outer join.

    `LEFT` and `INNER` may follow each other in any order, the first join may also be `RIGHT`, `FULL` or,
    if it is the only one, `ANTI`. Others have no bounds here.
    """

    select: exp.Select
    aliases: Sequence[str]
    """The inputs in the order of FROM."""
    clocks: Mapping[Column, Clock]

    @property
    def joins(self) -> list[exp.Join]:
        return self.select.args.get("joins") or []

    def is_bounded(self) -> bool:
        """Whether every input is bound to every other in time, in a shape that is known here."""
        kinds = [(join.side, join.kind) for join in self.joins]
        if len(self.aliases) > _MOST_INPUTS or any(kind == "SEMI" for _, kind in kinds):
            return False
        if any(kind == "ANTI" for _, kind in kinds) and len(kinds) > 1:
            return False
        if any(side in ("RIGHT", "FULL") for side, _ in kinds[1:]):
            return False
        return all(isfinite(reach) for reach in self.reach.values())

    # -- who is there --------------------------------------------------------------------------

    @cached_property
    def _needs(self) -> dict[str, set[str]]:
        """For each input, those that are present whenever it is: its condition compares times with them."""
        first, joins = self.aliases[0], self.joins
        needs: dict[str, set[str]] = {alias: set() for alias in self.aliases}
        for alias, join in zip(self.aliases[1:], joins, strict=True):
            named = {a for pair in self._named(join) for a in pair} - {alias}
            match _side(join):
                case "FULL":
                    pass
                case "RIGHT":
                    needs[first].add(alias)
                case _:
                    needs[alias] |= named
        return needs

    def _named(self, join: exp.Join) -> Iterable[tuple[str, str]]:
        """The pairs of inputs whose event times a condition of a join compares."""
        for condition in conjuncts(join.args.get("on")):
            for pair, most in time_bounds([condition], self.clocks).items():
                if pair[0] != pair[1] and isfinite(most):
                    yield pair

    @cached_property
    def _always(self) -> set[str]:
        sides = [_side(join) for join in self.joins]
        always = {alias for alias, side in zip(self.aliases[1:], sides, strict=True) if not side or side == "RIGHT"}
        if sides[0] not in ("RIGHT", "FULL"):
            always.add(self.aliases[0])
        return self._with_needs(always)

    def _with_needs(self, aliases: Set[str]) -> set[str]:
        found = set(aliases)
        while more := set().union(*(self._needs[alias] for alias in found)) - found:
            found |= more
        return found

    # -- how far apart -------------------------------------------------------------------------

    @cached_property
    def reach(self) -> dict[tuple[str, str], float]:
        """For inputs (p, m): how much later than a row of p a row of m can be that is in a result with it."""
        found: dict[tuple[str, str], float] = {}
        for p in self.aliases:
            for m in self.aliases:
                present = self._with_needs({p, m} | self._always)
                found[p, m] = time_bounds(self._conditions(present), self.clocks)[p, m]
        return found

    def _conditions(self, present: Set[str]) -> list[exp.Expr]:
        return [
            condition
            for alias, join in zip(self.aliases[1:], self.joins, strict=True)
            if alias in present
            for condition in conjuncts(join.args.get("on"))
        ]

    def last(self, alias: str) -> int:
        """How long after a row its last partner can be."""
        return int(max(0.0, *(self.reach[alias, other] for other in self.aliases)))

    def keep(self, alias: str) -> int:
        """How long after a row something can still depend on it.

        A row that is not late may be its partner. It may also be the partner of a row that has this one, or
        lacks it: whether one or the other must then still be known.
        """
        others = [other for other in self.aliases if other != alias]
        ways = [self.reach[alias, m] + self.last(m) for m in others]
        if alias not in self._always:
            ways += [self.reach[alias, p] + self.reach[p, m] + self.last(m) for p in others for m in self.aliases]
        return int(max(ways))

    # -- rows ----------------------------------------------------------------------------------

    def rows(self) -> tuple[OuterRows, ...]:
        """The kinds of rows that lack partners."""
        optional = [alias for alias in self.aliases if alias not in self._always]
        some = chain.from_iterable(combinations(optional, count) for count in range(len(optional)))
        kinds = [self._always | set(more) for more in some]
        return tuple(self._rows(kind) for kind in kinds if kind and self._with_needs(kind) == kind)

    def _rows(self, present: set[str]) -> OuterRows:
        first = self.aliases[0]
        conditions: list[str] = []
        lacks: list[Missing] = []
        for alias, join in zip(self.aliases[1:], self.joins, strict=True):
            on = join.args.get("on")
            if on is None:
                continue
            if alias not in present:
                lacks.append(Missing(self.aliases.index(alias), guarded_sql(on)))
            elif alias == self.aliases[1] and first not in present:
                lacks.append(Missing(0, guarded_sql(on)))
            else:
                conditions.append(guarded_sql(on))
        where = self.select.args.get("where")
        if where is not None:
            conditions.append(guarded_sql(where.this))
        return OuterRows(
            tuple(index for index, alias in enumerate(self.aliases) if alias in present),
            tuple(lacks),
            tuple(guarded_sql(item.unalias()) for item in self.select.expressions),
            tuple(f"({condition})" for condition in conditions),
            self._settled(present),
        )

    def _settled(self, present: set[str]) -> tuple[tuple[tuple[int, int], ...], ...]:
        # An input that compares its time with one that is missing cannot match.
        return tuple(
            tuple((index, int(max(0.0, self.reach[p, m])) + 1) for index, p in enumerate(self.aliases) if p in present)
            for m in self.aliases
            if m not in present and self._needs[m] <= present
        )


def _side(join: exp.Join) -> str:
    return "LEFT" if join.kind == "ANTI" else join.side
