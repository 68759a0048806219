"""What operators see: newest first, exact filters, pages by cursor. It never writes."""

from afterturn.inbox.filters import InboxQuery, TimeWindow
from afterturn.inbox.inbox import Inbox
from afterturn.inbox.page import InboxPage, InboxRow

__all__ = ["Inbox", "InboxPage", "InboxQuery", "InboxRow", "TimeWindow"]
