"""For tests of afterturn, and of what is built on it: a clock set by hand, and ports that fail on schedule."""

from afterturn.testing.clock import ManualClock
from afterturn.testing.faults import Crash, Fault, Faults, Moment, faulty

__all__ = ["Crash", "Fault", "Faults", "ManualClock", "Moment", "faulty"]
