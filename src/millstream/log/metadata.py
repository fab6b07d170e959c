"""The small file that says what a topic is: `topic.json`.

Always: written whole and atomically, so it is there with its old contents or its new ones.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millstream.log import disk
from millstream.log.frames import corrupt
from millstream.log.settings import TopicSettings

METADATA = "topic.json"


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """`id` differs between a topic and another one later created under the same name.

    `owner` names whoever the topic ends with, in the owner's terms. A topic of a user has no owner.
    """

    name: str
    id: str
    partitions: int
    settings: TopicSettings
    created_at: int
    owner: str | None = None

    def save(self, directory: Path) -> None:
        saved: dict[str, Any] = {
            "version": 1,
            "name": self.name,
            "id": self.id,
            "partitions": self.partitions,
            "settings": self.settings.to_json(),
            "created_at": self.created_at,
            **({"owner": self.owner} if self.owner is not None else {}),
        }
        disk.replace_file(directory / METADATA, json.dumps(saved, indent=2).encode())

    @staticmethod
    def load(directory: Path) -> TopicMetadata:
        path = directory / METADATA
        try:
            saved = json.loads(path.read_bytes())
            settings = TopicSettings.from_json(saved["settings"])
            return TopicMetadata(
                saved["name"], saved["id"], saved["partitions"], settings, saved["created_at"], saved.get("owner")
            )
        except (ValueError, KeyError, TypeError) as error:
            raise corrupt(path, 0, f"not the description of a topic: {error}") from error


def partition_directory(topic: Path, number: int) -> Path:
    return topic / f"p{number:05d}"
