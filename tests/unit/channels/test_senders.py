"""What may come of a message that goes out, in words of a fixed vocabulary."""

from __future__ import annotations

from datetime import timedelta

import pytest

from afterturn.channels.outlook import graph
from afterturn.channels.outlook.send import GraphSender
from afterturn.channels.sending import (
    ProviderErrors,
    Reason,
    Sender,
    SendFailed,
    TryLater,
    Uncertain,
    Undeliverable,
    pause_after,
)
from afterturn.channels.ses import send as ses
from afterturn.channels.telegram.send import TelegramSender
from afterturn.channels.twilio import send as twilio
from afterturn.errors import AfterturnError

SENDERS: tuple[type[Sender], ...] = (twilio.TwilioSender, TelegramSender, ses.SesSender, GraphSender)
"""That each is one, the type checker says."""


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("kind", [Undeliverable, TryLater, Uncertain])
def test_every_error_says_where_why_and_what_to_do(kind: type[SendFailed], reason: Reason) -> None:
    error = kind("twilio", reason, "21610")
    assert isinstance(error, AfterturnError)
    assert str(error).startswith("twilio: ")
    assert str(error).endswith("(21610)")
    assert ";" in str(error), "what is wrong, and what to do"
    assert (error.provider, error.reason, error.code) == ("twilio", reason, "21610")


def test_the_reasons_are_labels() -> None:
    assert all(reason.value.replace("-", "").isalpha() and reason.value.islower() for reason in Reason)


@pytest.mark.parametrize("problems", [twilio.ERRORS, ses.ERRORS, graph.ERRORS])
def test_no_code_is_both_final_and_passing_and_none_is_uncertain(problems: ProviderErrors) -> None:
    passing = {Reason.THROTTLED, Reason.UNAVAILABLE, Reason.UNREACHABLE, Reason.CONFIGURATION}
    uncertain = {Reason.RESPONSE_LOST, Reason.RESPONSE_UNREADABLE}
    assert not problems.permanent.keys() & problems.temporary.keys()
    assert set(problems.temporary.values()) <= passing
    assert not set(problems.permanent.values()) & (passing | uncertain)


def test_an_unknown_code_is_no_error_of_a_known_kind() -> None:
    assert ProviderErrors(permanent={"1": Reason.EMPTY}).error_of("here", "2") is None


def test_what_somebody_has_to_put_right_is_left_alone_for_a_while() -> None:
    assert pause_after(Reason.CONFIGURATION) == timedelta(minutes=15)
    assert pause_after(Reason.THROTTLED) is None
