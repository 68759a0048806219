"""Addresses in headers: one person has one, however it is written, and no name or comment is taken for one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.channels.mails import RECEIPT, mail, received

from afterturn.channels.email.addresses import MAX_CHARS, normalise_address, parse_addresses

SAME = [
    "jo@tenants.example",
    "<jo@tenants.example>",
    "JO@Tenants.EXAMPLE",
    "Jo <jo@tenants.example>",
    '"Roe, Jo" <jo@tenants.example>',
    "jo@tenants.example (Jo Roe)",
    "=?utf-8?q?J=C3=B6?= <jo@tenants.example>",
    '"jo"@tenants.example',
    "Jo <jo@tenants.example",
    "jo @ tenants.example",
    "Jo <mailto:jo@tenants.example>",
    "Jo <@relay.example:jo@tenants.example>",
    "jo@tenants.example.",
    "Jo\r\n <jo@tenants.example>",
    "boss@bank.example <jo@tenants.example>",
    '"boss@bank.example" <jo@tenants.example>',
    "=?utf-8?q?boss=40bank=2Eexample?= <jo@tenants.example>",
    "=?utf-8?q?<boss@bank.example>?= <jo@tenants.example>",
    "(boss@bank.example) jo@tenants.example",
    f'"{"x" * 400} <boss@bank.example>" <jo@tenants.example>',
    "Jo Roe jo@tenants.example",
]


@pytest.mark.parametrize("written", SAME)
def test_one_person_has_one_address_however_it_is_written(written: str) -> None:
    assert received(mail(headers={"From": written})).party.sender == "jo@tenants.example"


@pytest.mark.parametrize("written", ["jo@bücher.example", "Jo@XN--BCHER-KVA.example", "JO@BÜCHER.example"])
def test_a_domain_in_any_script_is_one(written: str) -> None:
    assert parse_addresses(f"Jo <{written}>") == ["jo@xn--bcher-kva.example"]


ENVELOPE = "bounces@tenants.example"
OTHERS = {
    '"boss@bank.example"@mallory.example': '"boss@bank.example"@mallory.example',
    "boss@bank.example@mallory.example": ENVELOPE,
    "jo+rent@tenants.example": "jo+rent@tenants.example",
    '"john doe"@tenants.example': '"john doe"@tenants.example',
    "jo@[192.0.2.1]": "jo@[192.0.2.1]",
    "o'roe/x=y@tenants.example": "o'roe/x=y@tenants.example",
    "nobody:;": ENVELOPE,
    "": ENVELOPE,
    "boss@bank.example: <mallory@x.example>": "mallory@x.example",
}


@pytest.mark.parametrize("written", OTHERS)
def test_nobody_else_is_taken_for_the_sender(written: str) -> None:
    """Without an address in the header the sender is the envelope's."""
    receipt = replace(RECEIPT, envelope_sender=ENVELOPE)
    assert received(mail(headers={"From": written}), receipt).party.sender == OTHERS[written]


@pytest.mark.parametrize("size", [MAX_CHARS, 400_000])
@pytest.mark.parametrize("piece", ['"\\', '"', "(", "(\\", "<", "a@", " @", "=?u?q?", '<"', '\\"(', "a:", "<@"])
def test_a_header_of_any_length_takes_linear_time(piece: str, size: int) -> None:
    """In quadratic time this test would not end."""
    assert parse_addresses(piece * (size // len(piece)))[:1] in ([], ["a@a"])


any_header = st.text(alphabet='ab@<>()",;:\\ .=?[]üß\r\n\t\ud800', max_size=60)


@given(header=any_header | st.text(max_size=60))
def test_every_address_of_any_header_is_normal_and_is_parsed_to_itself(header: str) -> None:
    for address in parse_addresses(header):
        assert "@" in address
        assert normalise_address(address) == address
        assert parse_addresses(address) == parse_addresses(f"Somebody <{address}>") == [address]


names = st.text(alphabet="ab @<>(),;:.ü", max_size=20).map(lambda name: f'"{name}"')


@given(given_names=st.lists(names, min_size=1, max_size=5), comment=st.text(alphabet="ab @<>,;.ü", max_size=9))
def test_names_and_comments_are_never_addresses(given_names: list[str], comment: str) -> None:
    written = [f"{name} ({comment}) <p{number}@x.example>" for number, name in enumerate(given_names)]
    assert parse_addresses(", ".join(written)) == [f"p{number}@x.example" for number in range(len(written))]
