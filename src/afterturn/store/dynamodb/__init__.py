"""The store in one DynamoDB table."""

from afterturn.store.dynamodb.layout import Layout, RecencyLayouts, Slot, SlotLayout
from afterturn.store.dynamodb.store import DynamoStore, open_store

__all__ = ["DynamoStore", "Layout", "RecencyLayouts", "Slot", "SlotLayout", "open_store"]
