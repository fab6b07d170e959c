"""The embedded partitioned log: topics, durable offsets, retention, compaction, consumer groups."""

from millstream.log.compaction import Compacted
from millstream.log.embedded import Log
from millstream.log.frames import LANDED_AT, OFFSET, TOMBSTONE, FrameRef, read_frame, read_frames, slice_offsets
from millstream.log.groups import ConsumerGroup, Member
from millstream.log.segments import Repair
from millstream.log.settings import TopicSettings
from millstream.log.topics import Appended, Retained, Topic

__all__ = [
    "LANDED_AT",
    "OFFSET",
    "TOMBSTONE",
    "Appended",
    "Compacted",
    "ConsumerGroup",
    "FrameRef",
    "Log",
    "Member",
    "Repair",
    "Retained",
    "Topic",
    "TopicSettings",
    "read_frame",
    "read_frames",
    "slice_offsets",
]
