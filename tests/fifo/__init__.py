"""An SQS FIFO service in this process, as strict as the real one, on a clock that is set by hand.

It answers the calls that the SQS stream makes, in the shapes of botocore, so the stream runs unchanged over it.
Emulators are laxer: they take illegal ids, expired receipt handles and out-of-range timeouts. Faults are put in front
of it with ``testing.faulty`` (throttling, an answer that is lost after the effect) and with :func:`partial_failures`.
"""

from tests.fifo.errors import FifoError, throttled, unreachable
from tests.fifo.queue import FifoQueue, Limits
from tests.fifo.service import FifoService, partial_failures

__all__ = ["FifoError", "FifoQueue", "FifoService", "Limits", "partial_failures", "throttled", "unreachable"]
