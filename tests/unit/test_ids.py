"""One spelling for each address, so that an import and a webhook lead to one conversation."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afterturn.ids import check_region, legal_id, normalise
from afterturn.model import check_id


@pytest.mark.parametrize(
    "spelt",
    [
        "+15158226442",
        "15158226442",
        " 15158226442",
        "(515) 822-6442",
        "515.822.6442",
        "+1 515 822 6442",
        "011 1 515 822 6442",
        "\u202a+1\u00a0515\u2011822\u20116442\u202c",
        "tel:+1-515-822-6442",
        "٥١٥٨٢٢٦٤٤٢",
        "\uff0b\uff11\uff15\uff11\uff15\uff18\uff12\uff12\uff16\uff14\uff14\uff12",
    ],
)
def test_a_number_of_the_region_is_one_however_it_is_spelt(spelt: str) -> None:
    assert normalise(spelt, "US") == "+15158226442"


@pytest.mark.parametrize(
    ("spelt", "region", "meant"),
    [
        ("07700 900513", "GB", "+447700900513"),
        ("447700900513", "GB", "+447700900513"),
        ("+44 (0)7700 900513", "US", "+447700900513"),
        (" 447700900513", "US", "+447700900513"),
        ("0171 1234567", "DE", "+491711234567"),
        ("0171 1234567", "US", "01711234567"),
        ("447700900513", "US", "447700900513"),
        ("555-0142", "US", "5550142"),
        ("(515) 555-0142", "US", "+15155550142"),
        ("+1555", "US", "+1555"),
        ("+999123456789", "US", "+999123456789"),
    ],
)
def test_only_what_the_region_makes_whole_is_completed(spelt: str, region: str, meant: str) -> None:
    assert normalise(spelt, region) == meant


@pytest.mark.parametrize("spelt", ["515 822 6442", "15158226442", "(515) 822-6442"])
def test_without_a_region_no_country_is_guessed(spelt: str) -> None:
    assert not normalise(spelt).startswith("+")


@pytest.mark.parametrize("region", [None, "US", "DE", "DK"])
@pytest.mark.parametrize("sender", ["12345", "262966", "ACME", "ACME 24", "*111#", "bill@example.com", "anonymous", ""])
def test_short_codes_and_names_stay_as_they_are(sender: str, region: str | None) -> None:
    assert normalise(f"{sender} ", region) == sender


@pytest.mark.parametrize(
    ("spelt", "meant"),
    [
        ("whatsapp:+15555550127", "whatsapp:+15555550127"),
        ("whatsapp: 15555550127", "whatsapp:+15555550127"),
        ("whatsapp:+5215512345678", "whatsapp:+5215512345678"),
        ("messenger:1234567890", "messenger:1234567890"),
        ("client:alice", "client:alice"),
        ("sip:+15158226442@example.com", "sip:+15158226442@example.com"),
    ],
)
def test_the_address_in_another_network_is_that_network_s_own(spelt: str, meant: str) -> None:
    assert normalise(spelt, "US") == meant


@given(st.text(max_size=300), st.sampled_from([None, "US", "DE", "IT"]))
def test_any_text_is_an_address_and_normal_at_once(address: str, region: str | None) -> None:
    once = normalise(address, region)
    assert normalise(once, region) == once
    check_id(legal_id("sms:", once))


@given(st.from_regex(r"\A[ +]?[0-9()\- .]{1,20}\Z"), st.sampled_from([None, "US", "DE", "IT"]))
def test_a_number_is_normal_at_once(address: str, region: str | None) -> None:
    once = normalise(address, region)
    assert normalise(once, region) == once


@pytest.mark.parametrize("region", ["", "us", "USA", "XX", "+1"])
def test_a_region_that_is_none_is_refused(region: str) -> None:
    with pytest.raises(ValueError, match="two capital letters"):
        check_region(region)
    assert check_region("US") == "US"


def test_the_numbering_plans_are_loaded_with_the_first_number() -> None:
    code = "import sys, afterturn.importers; print('phonenumbers' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"
