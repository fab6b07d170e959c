"""The generator: the same events however they are asked for, in the proportions of the benchmark."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.errors import MillstreamError
from millstream.model.time import MICROS
from millstream.nexmark.generator import BLOCK, Events, Nexmark
from millstream.nexmark.settings import CYCLE, MAX_SPREAD, Settings

MANY = 10 * BLOCK
DISORDER = 3 * MICROS


@pytest.fixture(scope="module")
def ordered() -> Events:
    return Nexmark(Settings(seed=7)).events(0, MANY)


def column(table: pa.Table, name: str) -> np.ndarray:
    values = table.column(name)
    found: np.ndarray = (values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_numpy()
    return found


def digest(events: Events) -> str:
    """Of the values alone: how rows are held in memory does not matter."""
    hash_ = hashlib.sha256()
    for table in events.tables().values():
        for name in table.column_names:
            hash_.update("\n".join(map(str, table.column(name).to_pylist())).encode())
    return hash_.hexdigest()[:16]


# -- the same events -----------------------------------------------------------------------------


def test_the_same_settings_are_the_same_events() -> None:
    one, two = (Nexmark(Settings(seed=3, disorder=DISORDER)).events(0, 5_000) for _ in range(2))
    assert one == two
    other = Nexmark(Settings(seed=4, disorder=DISORDER)).events(0, 5_000)
    assert one.bid.column("price") != other.bid.column("price")
    assert one.person.column("name") != other.person.column("name")


def test_the_events_of_a_seed_never_change() -> None:
    """Results that were published for a seed stay comparable: whoever changes this, changes the data."""
    assert digest(Nexmark(Settings(seed=1)).events(0, 1_000)) == "c371fecbec21e8b9"
    assert digest(Nexmark(Settings(seed=1, rate=500, disorder=DISORDER)).events(0, 1_000)) == "6f92dd0d3eb42ce6"


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 3 * BLOCK), min_size=2, max_size=6).map(sorted),
    spread=st.sampled_from([0, 1, 700, BLOCK + 123]),
)
def test_a_range_is_the_sum_of_its_parts(cuts: list[int], spread: int) -> None:
    chosen = Settings(seed=11, rate=1_000, disorder=spread * 1_000)
    assert chosen.spread == spread
    whole = Nexmark(chosen).events(cuts[0], cuts[-1])
    parts = [Nexmark(chosen).events(a, b) for a, b in pairwise(cuts)]
    assert sum(part.rows for part in parts) == whole.rows == cuts[-1] - cuts[0]
    for kind, table in whole.tables().items():
        assert pa.concat_tables([part.tables()[kind] for part in parts]).equals(table), kind


def test_blocks_that_are_kept_do_not_change_the_events() -> None:
    nexmark = Nexmark(Settings(seed=5))
    places = [0, 4 * BLOCK, BLOCK - 10, 2 * BLOCK, 0]
    seen = [nexmark.events(place, place + 100) for place in places]
    assert seen[0] == seen[-1]
    assert seen[2] == Nexmark(Settings(seed=5)).events(BLOCK - 10, BLOCK + 90)


def test_no_events() -> None:
    empty = Nexmark().events(10, 10)
    assert empty.rows == 0
    assert empty.bid.schema == Nexmark().events(0, 50).bid.schema


# -- proportions and ranges ----------------------------------------------------------------------


def test_kinds(ordered: Events) -> None:
    assert {kind: table.num_rows for kind, table in ordered.tables().items()} == {
        "person": MANY * 2 // 100,
        "auction": MANY * 6 // 100,
        "bid": MANY * 92 // 100,
    }


def test_ids_follow_each_other(ordered: Events) -> None:
    for kind in ("person", "auction"):
        ids = column(ordered.tables()[kind], "id")
        assert (ids == 1_000 + np.arange(len(ids))).all(), kind


@pytest.mark.parametrize("rate", [1, 50, 999, 10_000, 3_000_000])
def test_event_time_follows_the_rate(rate: int) -> None:
    start_at = 1_700_000_000 * MICROS
    events = Nexmark(Settings(rate=rate, start_at=start_at)).events(0, 200)
    times = np.sort(np.concatenate([column(table, "date_time") for table in events.tables().values()]))
    assert times.tolist() == [start_at + number * MICROS // rate for number in range(200)]


def test_auctions(ordered: Events) -> None:
    auction = ordered.auction
    opened, expires = column(auction, "date_time"), column(auction, "expires")
    length = expires - opened
    horizon = 100 * CYCLE // 3 * MICROS // 10_000
    assert length.min() >= 1
    assert length.max() <= 2 * horizon
    assert length.mean() == pytest.approx(horizon, rel=0.02)
    assert (column(auction, "reserve") > column(auction, "initial_bid")).all()
    assert set(column(auction, "category")) == {10, 11, 12, 13, 14}
    shares = np.bincount(column(auction, "category"))[10:] / auction.num_rows
    assert shares == pytest.approx([0.2] * 5, abs=0.02)
    persons = np.arange(auction.num_rows) // 3
    hot = column(auction, "seller") == 1_000 + persons // 100 * 100
    assert hot.mean() == pytest.approx(0.75, abs=0.02)


def test_bids(ordered: Events) -> None:
    bid = ordered.bid
    cycle = np.arange(bid.num_rows) // 46
    newest = 1_000 + cycle * 3 + 2
    auction, bidder = column(bid, "auction"), column(bid, "bidder")
    hot = (newest - 1_000) // 100 * 100 + 1_000
    assert (auction == hot).mean() == pytest.approx(0.5, abs=0.02)
    assert ((auction >= 1_000) & (auction <= newest + 10) & (auction >= np.minimum(newest - 100, hot))).all()
    assert (bidder == 1_001 + cycle // 100 * 100).mean() == pytest.approx(0.75, abs=0.02)
    assert ((bidder >= 1_000) & (bidder <= 1_000 + cycle + 10)).all()
    price = column(bid, "price")
    assert price.min() >= 100
    assert price.max() <= 100_000_000
    assert np.median(price) == pytest.approx(100_000, rel=0.05), "as many below 1,000 dollars as above"


def test_channels(ordered: Events) -> None:
    bid = ordered.bid
    channel = bid.column("channel").to_pylist()
    shares = {name: channel.count(name) / len(channel) for name in ("Google", "Facebook", "Baidu", "Apple")}
    assert list(shares.values()) == pytest.approx([0.125] * 4, abs=0.01)
    url = bid.column("url")
    pattern = r"^https://www\.nexmark\.com/[a-z_]{3,4}/[a-z_]{3,4}/[a-z_]{3,4}/item\.htm\?query=1(&channel_id=\d+)?$"
    assert pc.all(pc.match_substring_regex(url, pattern)).as_py()
    with_id = pc.match_substring(url, "&channel_id=")
    assert pc.mean(with_id.cast(pa.float64())).as_py() == pytest.approx(0.45, abs=0.02)
    # A channel has one address.
    pairs = set(zip(channel, url.to_pylist(), strict=True))
    assert len(pairs) == len(set(channel))
    # The benchmark takes the bits of the number in reverse; of 1 that is the smallest INT.
    ids = {name: address for name, address in pairs if "&channel_id=" in address}
    known = {"channel-1": 2_147_483_648, "channel-2": 1_073_741_824, "channel-3": 1_073_741_824, "channel-0": 0}
    found = {name: int(ids[name].rpartition("=")[2]) for name in known if name in ids}
    assert found == {name: known[name] for name in found}
    assert found


def test_persons_and_texts(ordered: Events) -> None:
    person = ordered.person
    assert set(person.column("state").to_pylist()) == {"az", "ca", "id", "or", "wa", "wy"}
    assert len(set(person.column("city").to_pylist())) == 10
    assert len(set(person.column("name").to_pylist())) == 99
    for name, pattern in (
        ("email_address", r"^[a-z][a-z ]*@[a-z][a-z ]*\.com$"),
        ("credit_card", r"^\d{4} \d{4} \d{4} \d{4}$"),
        ("extra", r"^[a-z]+$"),
    ):
        assert pc.all(pc.match_substring_regex(person.column(name), pattern)).as_py(), name
    item = ordered.auction.column("item_name")
    assert pc.all(pc.match_substring_regex(item, r"^[a-z]([a-z ]*[a-z])?$")).as_py()
    assert pc.max(pc.utf8_length(item)).as_py() == 19
    sizes = pc.utf8_length(ordered.bid.column("extra"))
    assert (pc.min(sizes).as_py(), pc.max(sizes).as_py()) == (54, 81)
    extra = ordered.bid.column("extra")
    assert pc.count_distinct(extra).as_py() == len(extra)


def test_most_references_lead_to_something_older(ordered: Events) -> None:
    """An auction's seller and a bid's auction and bidder exist by then, but for a few that come at once."""
    opened = column(ordered.auction, "date_time")
    entered = column(ordered.person, "date_time")
    for table, name, since in (
        (ordered.bid, "auction", opened),
        (ordered.bid, "bidder", entered),
        (ordered.auction, "seller", entered),
    ):
        ids = column(table, name) - 1_000
        exists = ids < len(since)
        known = np.zeros(len(ids), bool)
        known[exists] = since[ids[exists]] <= column(table, "date_time")[exists]
        assert 0.9 < known.mean() < 1, name


# -- disorder ------------------------------------------------------------------------------------


def test_disorder_moves_events_and_changes_none(ordered: Events) -> None:
    nexmark = Nexmark(Settings(seed=7, disorder=DISORDER))
    spread = nexmark.settings.spread
    assert spread == 30_000
    numbers = nexmark.numbers(0, MANY)
    assert len(np.unique(numbers)) == MANY
    assert (np.sort(numbers)[: MANY - spread] == np.arange(MANY - spread)).all(), "none is left behind"
    assert (np.abs(numbers - np.arange(MANY)) <= spread).all()
    behind = np.maximum.accumulate(numbers) - numbers
    assert spread * 0.9 < behind.max() <= spread
    assert (behind > 0).mean() > 0.9

    shuffled = nexmark.events(0, MANY)
    order = pa.table({"bid": shuffled.bid.column("extra")}).group_by("bid").aggregate([])
    kept = set(order.column("bid").to_pylist())
    before = ordered.bid.filter(pc.less(ordered.bid.column("date_time").cast(pa.int64()), _instant(MANY - spread)))
    assert set(before.column("extra").to_pylist()) <= kept
    times = column(shuffled.bid, "date_time")
    assert 0 < (np.maximum.accumulate(times) - times).max() <= DISORDER


def _instant(number: int) -> int:
    return Settings().start_at + number * MICROS // 10_000


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        ({"seed": -1}, "from 0"),
        ({"rate": 0}, "from 1"),
        ({"disorder": -1}, "duration"),
        ({"rate": 1_000_000, "disorder": (MAX_SPREAD + 1)}, None),
        ({"rate": 1_000_000, "disorder": 3 * MICROS}, "2.00 seconds"),
    ],
)
def test_settings_that_cannot_be(wrong: dict[str, int], hint: str | None) -> None:
    with pytest.raises(MillstreamError) as caught:
        Settings(**wrong)
    assert caught.value.code == "BAD_OPTION"
    assert caught.value.hint
    if hint:
        assert hint in caught.value.hint
