"""What operators see: newest first, exact filters, pages by cursor. It never writes."""

from afterturn.inbox.inbox import Inbox
from afterturn.inbox.query import InboxQuery, Page, Row, Window

__all__ = ["Inbox", "InboxQuery", "Page", "Row", "Window"]
