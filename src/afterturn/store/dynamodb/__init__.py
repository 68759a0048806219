"""The store in one DynamoDB table."""

from afterturn.store.dynamodb.layout import Layout, Placement, Placements, Slot
from afterturn.store.dynamodb.store import DynamoStore, open_store

__all__ = ["DynamoStore", "Layout", "Placement", "Placements", "Slot", "open_store"]
