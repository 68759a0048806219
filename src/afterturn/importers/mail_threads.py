"""Which mails belong to one conversation, and which addresses are ours. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from afterturn.channels.email.threading import SAME_SUBJECT_WITHIN, is_own


@dataclass(frozen=True, slots=True)
class Envelope:
    """What has to be known of every mail before the first conversation can be told: no text."""

    place: str
    start: int
    end: int
    at: datetime
    message_id: str
    provider_id: str | None
    thread_ids: tuple[str, ...]
    sender: str
    recipients: tuple[str, ...]
    delivered_to: tuple[str, ...]
    subject: str
    labelled_sent: bool
    automatic: bool


def own_addresses(envelopes: Sequence[Envelope]) -> frozenset[str]:
    """Ours, where nobody has said: the senders of what is labelled as sent; else the address that most mails have
    been delivered to; else the one that takes part in most mails. In a tie, whoever was written to first.
    """
    if sent := frozenset(e.sender for e in envelopes if e.labelled_sent and e.sender):
        return sent
    delivered = Counter(address for e in envelopes for address in set(e.delivered_to))
    counts = delivered or Counter(address for e in envelopes for address in {e.sender, *e.recipients} if address)
    if not counts:
        return frozenset()
    most = max(counts.values())
    leading = {address for address, count in counts.items() if count == most}
    by_time = sorted(envelopes, key=lambda e: (e.at, e.start))
    written_to = (address for e in by_time for address in e.recipients if address in leading)
    return frozenset([next(written_to, min(leading))])


def threads(envelopes: Iterable[Envelope], own: frozenset[str]) -> list[list[Envelope]]:
    """The mails of each conversation by time, and the conversations by their first mail.

    Mails are of one conversation if one refers to the other, or both to a third, even one that is not here; or if
    they have the same subject and the same people besides us, within 30 days of each other.
    """
    ordered = sorted(envelopes, key=lambda e: (e.at, e.start))
    groups = _Groups(len(ordered))
    first_of_id: dict[str, int] = {}
    last_of_subject: dict[tuple[str, frozenset[str]], int] = {}
    for i, envelope in enumerate(ordered):
        for thread_id in envelope.thread_ids:
            groups.join(first_of_id.setdefault(thread_id, i), i)
        if not envelope.subject:
            continue
        people = frozenset(a for a in (envelope.sender, *envelope.recipients) if a and not is_own(a, own))
        before = last_of_subject.get((envelope.subject, people))
        if before is not None and envelope.at - ordered[before].at <= SAME_SUBJECT_WITHIN:
            groups.join(before, i)
        last_of_subject[envelope.subject, people] = i
    found: dict[int, list[Envelope]] = {}
    for i, envelope in enumerate(ordered):
        found.setdefault(groups.root(i), []).append(envelope)
    return list(found.values())


class _Groups:
    """Disjoint sets of numbers; the smallest stands for its set."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def root(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def join(self, a: int, b: int) -> None:
        low, high = sorted((self.root(a), self.root(b)))
        self._parent[high] = low
