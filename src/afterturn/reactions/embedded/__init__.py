"""The reaction engine in process: due rows in SQLite, claimed by lease."""

from afterturn.reactions.embedded.engine import EmbeddedEngine
from afterturn.reactions.embedded.worker import EmbeddedWorker

__all__ = ["EmbeddedEngine", "EmbeddedWorker"]
