"""What operators see: newest first, exact filters, pages by cursor. It never writes."""

from afterturn.inbox.filters import Window
from afterturn.inbox.inbox import Inbox
from afterturn.inbox.page import Page, Row
from afterturn.inbox.query import InboxQuery

__all__ = ["Inbox", "InboxQuery", "Page", "Row", "Window"]
