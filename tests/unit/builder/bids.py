"""The relations that the tests of the builder begin with."""

from __future__ import annotations

import millstream as ms

bids = ms.stream("bids", event_time="ts")
sales = ms.stream("sales", event_time="sold_at")
users = ms.table("users")
price, auction = ms.col("price"), ms.col("auction")
tumbled = bids.window(ms.Tumble("10 seconds"))
counted = bids.group_by("auction").agg(n=ms.count())
