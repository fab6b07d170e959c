"""What a program can do with a database, embedded or remote: protocols and plain data.

The command line, the builder, a server and a remote client are written against this package alone. What always holds:
values cross it as text, numbers, Arrow or plain data, so that they can travel between processes.
Must not know an implementation, nor assume that the engine runs in this process.
"""

from millstream.api.connection import Connection, Running
from millstream.api.outcomes import Done, Effect, Outcome
from millstream.api.result import Result
from millstream.api.rows import Lines, MessageIds, Parameters, Rows
from millstream.api.starts import Starts
from millstream.api.status import SinkStatus, Status, StreamStatus, ViewStatus
from millstream.api.subscription import Subscription
from millstream.api.topics import TopicOffsets, Topics

__all__ = [
    "Connection",
    "Done",
    "Effect",
    "Lines",
    "MessageIds",
    "Outcome",
    "Parameters",
    "Result",
    "Rows",
    "Running",
    "SinkStatus",
    "Starts",
    "Status",
    "StreamStatus",
    "Subscription",
    "TopicOffsets",
    "Topics",
    "ViewStatus",
]
