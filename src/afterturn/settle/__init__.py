"""The one writer: saves turns, marks them settled, and tells the stream."""

from afterturn.settle.settler import Receipt, Settler

__all__ = ["Receipt", "Settler"]
