"""Persons, auctions and bids: the columns of some events, from their numbers and a stream of chance.

Owns the schemas and what is in each field. Names of fields are in snake case and words in lower
case, as in the published example data that the tests use, so that one set of queries fits both.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.schema import TIMESTAMP
from millstream.nexmark.chance import Draws, Ints
from millstream.nexmark.numbers import (
    event_times,
    hot,
    last_auction,
    last_person,
    mostly_hot,
    some_auction,
    some_person,
)
from millstream.nexmark.settings import (
    AUCTION_BYTES,
    AUCTIONS,
    BID_BYTES,
    CATEGORIES,
    CYCLE,
    FIRST_AUCTION,
    FIRST_CATEGORY,
    FIRST_PERSON,
    HOT_AUCTIONS,
    HOT_BIDDERS,
    HOT_SELLERS,
    OPEN_AUCTIONS,
    PERSON_BYTES,
    Settings,
)

_STATES = ("az", "ca", "id", "or", "wa", "wy")
_CITIES = (
    "phoenix",
    "los angeles",
    "san francisco",
    "boise",
    "portland",
    "bend",
    "redmond",
    "seattle",
    "kent",
    "cheyenne",
)
_FIRST_NAMES = ("peter", "paul", "luke", "john", "saul", "vicky", "kate", "julie", "sarah", "deiter", "walter")
_LAST_NAMES = ("shultz", "abrams", "spencer", "white", "bartels", "walton", "smith", "jones", "noris")

_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_OTHER_CHANNELS = 10_000
_CHANNELS_KEY = 2**32

_TEXT, _NUMBER = pa.string(), pa.int64()

PERSON = pa.schema(
    {
        "id": _NUMBER,
        "name": _TEXT,
        "email_address": _TEXT,
        "credit_card": _TEXT,
        "city": _TEXT,
        "state": _TEXT,
        "date_time": TIMESTAMP,
        "extra": _TEXT,
    }.items()
)
AUCTION = pa.schema(
    {
        "id": _NUMBER,
        "item_name": _TEXT,
        "description": _TEXT,
        "initial_bid": _NUMBER,
        "reserve": _NUMBER,
        "date_time": TIMESTAMP,
        "expires": TIMESTAMP,
        "seller": _NUMBER,
        "category": _NUMBER,
        "extra": _TEXT,
    }.items()
)
BID = pa.schema(
    {
        "auction": _NUMBER,
        "bidder": _NUMBER,
        "price": _NUMBER,
        "channel": _TEXT,
        "url": _TEXT,
        "date_time": TIMESTAMP,
        "extra": _TEXT,
    }.items()
)


def persons(numbers: Ints, settings: Settings, draws: Draws) -> pa.Table:
    count = len(numbers)
    name = _join(draws.choices(_FIRST_NAMES, count), draws.choices(_LAST_NAMES, count), between=" ")
    email = _join(_phrases(7, draws, count), "@", _phrases(5, draws, count), ".com")
    card = _join(*(draws.digits(4, count) for _ in range(4)), between=" ")
    city, state = draws.choices(_CITIES, count), draws.choices(_STATES, count)
    size = 8 + _length(_join(name, email, card, city, state))
    columns = [
        pa.array(last_person(numbers) + FIRST_PERSON),
        name,
        email,
        card,
        city,
        state,
        _instants(event_times(numbers, settings)),
        _extra(PERSON_BYTES - size, draws),
    ]
    return pa.table(columns, schema=PERSON)


def auctions(numbers: Ints, settings: Settings, draws: Draws) -> pa.Table:
    count = len(numbers)
    newest = last_person(numbers)
    seller = mostly_hot(hot(newest), some_person(newest, draws), HOT_SELLERS, draws)
    initial_bid = draws.prices(count)
    opened = event_times(numbers, settings)
    # It stays open, on average, until as many others have opened as are open at a time.
    horizon = event_times(numbers + OPEN_AUCTIONS * CYCLE // AUCTIONS, settings) - opened
    item_name, description = _phrases(20, draws, count), _phrases(100, draws, count)
    size = 8 + _length(item_name) + _length(description) + 8 * 5
    columns = [
        pa.array(last_auction(numbers) + FIRST_AUCTION),
        item_name,
        description,
        pa.array(initial_bid),
        pa.array(initial_bid + draws.prices(count)),
        _instants(opened),
        _instants(opened + 1 + draws.below(np.maximum(horizon * 2, 1), count)),
        pa.array(seller + FIRST_PERSON),
        pa.array(draws.below(CATEGORIES, count) + FIRST_CATEGORY),
        _extra(AUCTION_BYTES - size, draws),
    ]
    return pa.table(columns, schema=AUCTION)


def bids(numbers: Ints, settings: Settings, draws: Draws) -> pa.Table:
    count = len(numbers)
    newest, newest_person = last_auction(numbers), last_person(numbers)
    auction = mostly_hot(hot(newest), some_auction(newest, draws), HOT_AUCTIONS, draws)
    # The one after the hot seller: hot bidders do not bid on what they sell.
    bidder = mostly_hot(hot(newest_person) + 1, some_person(newest_person, draws), HOT_BIDDERS, draws)
    names, urls = _channels(settings.seed)
    other = len(_HOT_CHANNELS) + draws.below(_OTHER_CHANNELS, count)
    channel = pa.array(np.where(draws.below(2, count) > 0, draws.below(len(_HOT_CHANNELS), count), other))
    columns = [
        pa.array(auction + FIRST_AUCTION),
        pa.array(bidder + FIRST_PERSON),
        pa.array(draws.prices(count)),
        names.take(channel),
        urls.take(channel),
        _instants(event_times(numbers, settings)),
        _extra(np.full(count, BID_BYTES - 8 * 4, np.int64), draws),
    ]
    return pa.table(columns, schema=BID)


@cache
def _channels(seed: int) -> tuple[pa.StringArray, pa.StringArray]:
    """Names and addresses, the hot channels first; nine in ten of the others have their id in the address."""
    draws = Draws(seed, _CHANNELS_KEY)
    count = len(_HOT_CHANNELS) + _OTHER_CHANNELS
    directories = [draws.phrases(5, count, underscores=True) for _ in range(3)]
    number = np.arange(count, dtype=np.int64) - len(_HOT_CHANNELS)
    channel_id = _join("&channel_id=", pa.array(_reversed_bits(np.maximum(number, 0))).cast(_TEXT))
    named = (number >= 0) & (draws.below(10, count) > 0)
    suffix = pc.if_else(pa.array(named), channel_id, "")
    urls = _join("https://www.nexmark.com/", _join(*directories, between="/"), "/item.htm?query=1", suffix)
    names = [*_HOT_CHANNELS, *(f"channel-{n}" for n in range(_OTHER_CHANNELS))]
    return pa.array(names, _TEXT), urls


def _reversed_bits(numbers: Ints) -> Ints:
    """The 32 bits of each number in reverse order, read as a signed number, without its sign."""
    bits = sum(((numbers >> place) & 1) << (31 - place) for place in range(32))
    signed: Ints = np.abs(np.asarray(bits).astype(np.uint32).astype(np.int32).astype(np.int64))
    return signed


def _phrases(longest: int, draws: Draws, count: int) -> pa.StringArray:
    return pc.utf8_rtrim(draws.phrases(longest, count), characters=" ")


def _extra(room: Ints, draws: Draws) -> pa.StringArray:
    """Letters that fill the room on average, and are up to a fifth shorter or longer."""
    room = np.maximum(room, 0)
    fifth = np.rint(room * 0.2).astype(np.int64)
    return draws.letters(room - fifth + draws.below(2 * fifth, len(room)))


def _join(*parts: pa.Array | str, between: str = "") -> pa.StringArray:
    return pc.binary_join_element_wise(*parts, between)


def _length(text: pa.StringArray) -> Ints:
    lengths: Ints = pc.binary_length(text).to_numpy().astype(np.int64)
    return lengths


def _instants(micros: Ints) -> pa.Array:
    return pa.array(micros).cast(TIMESTAMP)
