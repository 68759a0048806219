"""What operators see: newest first, exact filters, pages by cursor. It never writes."""

from afterturn.inbox.filters import TimeWindow
from afterturn.inbox.inbox import Inbox
from afterturn.inbox.page import InboxPage, InboxRow
from afterturn.inbox.query import InboxQuery

__all__ = ["Inbox", "InboxPage", "InboxQuery", "InboxRow", "TimeWindow"]
