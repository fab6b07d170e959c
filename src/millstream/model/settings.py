"""Settings and the options of WITH (…), each validated with a hint for what was meant.

Options arrive as text. A model lists the ones that exist; an unknown or ill-typed one is refused
when the statement is read, never later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from millstream.model.errors import MillstreamError, Position, did_you_mean, place_of
from millstream.model.time import parse_duration


def _duration(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        micros = parse_duration(value)
    except MillstreamError as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    if micros <= 0:
        raise ValueError("a duration must be positive")
    return micros


def _is_duration(text: str) -> str:
    _duration(text)
    return text


_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def _size(value: object) -> object:
    if not isinstance(value, str) or value.isdigit():
        return value
    number = value.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = _SIZES.get(value[len(number) :].strip().lower())
    if unit is None or not number.replace(".", "", 1).isdigit():
        raise ValueError("write a size such as '64 MiB' or '1 GB'")
    return int(float(number) * unit)


Duration = Annotated[int, BeforeValidator(_duration)]
"""Microseconds, written as '30 seconds'."""
Size = Annotated[int, BeforeValidator(_size), Field(gt=0)]
"""Bytes, written as '64 MiB'."""


def _reason(refused: Mapping[str, Any]) -> str:
    """What is wrong with a value that pydantic has refused."""
    return f"{refused.get('input')!r}: {refused['msg'].removeprefix('Value error, ')}"


class Options(BaseModel):
    """The options of one kind of object. Subclasses list them as fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def read(cls, options: dict[str, str], position: Position | None = None, also: Iterable[str] = ()) -> Self:
        """Validate what a statement says; `also` are names that it might have meant."""
        names = {key.lower(): value for key, value in options.items()}
        said = {key.lower(): key for key in options}
        known = {field.alias or name: name for name, field in cls.model_fields.items()}
        for name in names:
            if name not in known and not cls.accepts(name):
                raise MillstreamError(
                    "UNKNOWN_OPTION",
                    f"there is no option {name!r} here",
                    hint=did_you_mean(name, (*known, *also)),
                    position=place_of(said[name], position),
                )
        try:
            return cls.model_validate(cls.shape(names))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"]) or "options"
            missing = first["type"] == "missing"
            raise MillstreamError(
                "MISSING_OPTION" if missing else "BAD_OPTION",
                f"option {name!r} is required" if missing else f"option {name!r} has a bad value",
                detail=None if missing else _reason(first),
                position=place_of(names.get(name), position),
            ) from None

    @classmethod
    def accepts(cls, name: str) -> bool:
        """Whether an option that is no field is fine all the same (`option.*` of Spark sources)."""
        return False

    @classmethod
    def shape(cls, options: dict[str, str]) -> dict[str, Any]:
        """From the flat text to the fields."""
        return dict(options)


class ViewOptions(Options):
    """`CREATE MATERIALIZED VIEW v WITH (…)`."""

    retain: Duration | None = None
    changelog_retain: Duration | None = 7 * 86_400 * 1_000_000
    backfill: bool = True


class Settings(BaseModel):
    """What a program may set. Subclasses list it as fields; a bad value is refused when the object is made."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0]) if first["loc"] else "settings"
            if first["type"] == "extra_forbidden":
                raise MillstreamError(
                    "UNKNOWN_SETTING", f"there is no setting {name!r}", hint=did_you_mean(name, type(self).model_fields)
                ) from None
            raise MillstreamError(
                "BAD_SETTING",
                f"setting {name!r} has a bad value",
                detail=_reason(first),
                hint=None if name in values else f"the environment has it, as MILLSTREAM_{name.upper()}",
            ) from None


def _matching(pattern: str, example: str) -> AfterValidator:
    def check(text: str) -> str:
        if re.fullmatch(pattern, text, re.IGNORECASE) is None:
            raise ValueError(f"write it as {example!r}")
        return text

    return AfterValidator(check)


class SparkSettings(Settings):
    """How Spark is started, once per process. `conf` is passed on as it is and wins."""

    master: str = "local[*]"
    driver_memory: Annotated[str, _matching(r"\d+[kmgt]b?", "2g")] = "1g"
    conf: dict[str, str] = Field(default_factory=dict)


Kernel = Literal["auto", "native", "spark"]
"""What computes deltas: Spark SQL for all views, or native kernels for those that they can express."""


class EngineSettings(Settings):
    """How a database runs."""

    max_epoch_rows: int = Field(default=1_000_000, ge=10_000)
    kernel: Kernel = Field(default_factory=lambda: os.environ.get("MILLSTREAM_KERNEL", "auto"), validate_default=True)
    """`SET kernel` changes it while the database is open."""
    target_latency: Annotated[str, AfterValidator(_is_duration)] | None = Field(
        default_factory=lambda: os.environ.get("MILLSTREAM_TARGET_LATENCY"), validate_default=True
    )
    """How long rows may take from arrival to commit, such as '500 ms'; None: as short as can be. `SET` changes it."""
    store_memory: Annotated[str, _matching(r"\d+(\.\d+)? ?[kmgt]i?b", "2GB")] = "1GB"
    eager_spark: bool = True
    """Start Spark when the database is opened rather than when it is first needed."""
    poll_interval: float = Field(default=0.2, gt=0)
    """Seconds between two looks at sources that do not announce their rows (files, datagen)."""
    function_modules: tuple[str, ...] = ()
    """The Python modules from which CREATE FUNCTION may take functions. None, unless it is said."""
