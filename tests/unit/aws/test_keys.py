"""Keys of the DynamoDB table: no two records share one, all are legal, and they sort as what they stand for."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from afterturn.clock import MILLISECOND
from afterturn.model import MAX_ID_CHARS, check_id
from afterturn.store.dynamodb import keys
from afterturn.store.dynamodb.requests import all_starting


def _is_id(text: str) -> bool:
    try:
        check_id(text)
    except ValueError:
        return False
    return True


WIDEST = chr(0x10FFFF - 2) * MAX_ID_CHARS
ids = st.one_of(
    st.text('#"12%$!aZ', min_size=1, max_size=12),
    st.text(min_size=1, max_size=MAX_ID_CHARS),
).filter(_is_id)
times = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001


@given(ids, ids)
@example("a#b", 'a"2b')
@example('"', '"1')
def test_escaped_ids_never_collide_and_keep_their_order(one: str, other: str) -> None:
    assert (keys.escape(one) < keys.escape(other)) == (one < other)
    assert (keys.escape(one) == keys.escape(other)) == (one == other)
    assert "#" not in keys.escape(one)


@given(st.tuples(ids, ids), st.tuples(ids, ids))
@example(("a", "b#c"), ("a#b", "c"))
def test_records_of_different_ids_never_share_a_key(one: tuple[str, str], other: tuple[str, str]) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)

    def made(first: str, second: str) -> list[keys.Key]:
        return [
            keys.meta(first),
            keys.message(first, now, 1, second),
            keys.known_message(first, second),
            keys.known_provider(first, second),
            keys.known_turn(first, second),
            keys.work_order(first, second),
            keys.claim(first, second),
            keys.state(first, second),
            keys.opt_out(first, second),
            keys.job(first, second),
            keys.waiting_job(first, now, second),
            keys.failure(first, second),
        ]

    assert len(set(made(*one))) == 12
    if one != other:
        assert not set(made(*one)[1:]) & set(made(*other)[1:])


@given(ids, ids, times)
@example(WIDEST, WIDEST, datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
@example('"' * MAX_ID_CHARS, "#" * MAX_ID_CHARS, datetime(2026, 3, 1, tzinfo=UTC))
def test_every_key_of_any_legal_id_fits(one: str, other: str, at: datetime) -> None:
    """2,048 bytes for partition keys, 1,024 for sort keys, those of the indexes too; none is empty."""
    partitions = [keys.of_property(one), keys.phone(one), keys.free(one)]
    sorts = [keys.recency(at, one), keys.urgency(2, at, one), one, keys.free(other)]
    for partition, sort in (
        keys.message(one, at, 10**11, other),
        keys.known_provider(one, other),
        keys.known_turn(one, other),
        keys.turn(one, at),
        keys.work_order(one, other),
        keys.failure("x" * 64, one),
        keys.registration("x" * 64),
        keys.claim(one * 9, other * 9),
        keys.state(one * 9, other * 9),
        keys.job("x" * 64, one),
        keys.waiting_job("x" * 64, at, one),
        keys.job_kind("x" * 64),
        keys.checkpoint(other * 9),
        keys.claim("", ""),
    ):
        partitions.append(partition)
        sorts.append(sort)
    assert all(1 <= len(key.encode()) <= 2048 for key in partitions)
    assert all(1 <= len(key.encode()) <= 1024 for key in sorts)


@given(st.text(max_size=3000).filter(lambda t: t.isprintable()), st.text('"09', max_size=5))
def test_free_text_never_collides(one: str, other: str) -> None:
    """Also where it is empty, or longer than a key may be."""
    assert (keys.free(one) == keys.free(other)) == (one == other)
    assert keys.free(one * 3000 + "a") != keys.free(one * 3000 + "b")


@given(st.tuples(times, ids), st.tuples(times, ids))
def test_recency_keys_sort_by_time_then_id(one: tuple[datetime, str], other: tuple[datetime, str]) -> None:
    """F7, F25: fixed width, and the id decides between equal times."""
    assert (keys.recency(*one) < keys.recency(*other)) == (one < other)


@given(times, st.integers(1, 10**9), st.integers(1, 10**9))
def test_messages_of_one_time_sort_by_arrival(at: datetime, one: int, other: int) -> None:
    assert (keys.message("c", at, one, "m") < keys.message("c", at, other, "m")) == (one < other)


@given(times.map(lambda at: min(at, datetime(9999, 1, 1, tzinfo=UTC))), ids)
def test_bounds_of_a_prefix_hold_its_keys_and_no_others(at: datetime, one: str) -> None:
    low, high = all_starting(keys.MESSAGES)
    assert low < keys.message("c", at, 1, one)[1] < high
    for other in (keys.META, keys.turn("c", at)[1], keys.work_order("c", one)[1], keys.known_message("c", one)[1]):
        assert not low <= other <= high
    after = keys.turn("c", at)[1] + "$"
    assert keys.turn("c", at)[1] < after < keys.turn("c", at + MILLISECOND)[1]
