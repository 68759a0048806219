"""What is new in a mail, and what it only quotes."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from tests.unit.channels.channels import SAMPLES, here, sample
from tests.unit.channels.mutations import mutate_mail

from afterturn.channels.email.quoting import strip_quotes
from afterturn.errors import MissingExtra

FOLDER = SAMPLES / "email-reply-text"
KEPT_WHOLE = {
    "email_1": "says nothing but what is new",
    "email_2": "answers below the quote",
    "email_tricky_18_inline_reply": "answers between the quoted lines",
    "email_tricky_1_on_false_positive": "has sentences that begin like an introduction",
    "email_tricky_6_regards_in_sentence": "has sentences with a word of farewell",
}
CUT = {
    "email_3": "Oh thanks.\n\nHaving the function would be great.\n\n-Alex Roe",
    "email_zoho": "What is the best way to clear a Riak bucket of all key, values after\nrunning a test?",
    "email_tricky_9_nested_quotes": "I agree with the points below.",
}
LOREM = ("email_french_2",)
"""Like those that upstream has an expectation for, which it asserts of this one only in part."""


def _text(name: str) -> str:
    return sample(f"email-reply-text/{name}").decode().replace("\r\n", "\n")


@here
def test_every_sample_has_an_outcome() -> None:
    names = {path.stem for path in FOLDER.glob("*.txt")}
    assert names == {name.removesuffix(".txt") for name in _expected()} | set(KEPT_WHOLE) | set(CUT) | set(LOREM)


@here
def test_what_upstream_expects_comes_out() -> None:
    """Twelve samples in nine languages; all of them."""
    for name, visible in _expected().items():
        assert strip_quotes(_text(name)) == visible.strip(), name


@here
@pytest.mark.parametrize("name", KEPT_WHOLE)
def test_nothing_is_cut_where_no_line_can_be_drawn(name: str) -> None:
    assert strip_quotes(_text(f"{name}.txt")) == _text(f"{name}.txt").strip()


@here
@pytest.mark.parametrize("name", CUT)
def test_the_quote_below_is_cut(name: str) -> None:
    assert strip_quotes(_text(f"{name}.txt")) == CUT[name]


@here
def test_a_quote_in_french_is_cut() -> None:
    assert strip_quotes(_text("email_french_2.txt")).endswith("aliquet nec nec nibh.")


@pytest.mark.parametrize(
    "introduction",
    [
        "On Mon, 2 Mar 2026 at 09:15, Desk <desk@homes.example> wrote:",
        "On Mon, 2 Mar 2026 at 09:15, Desk\n<desk@homes.example> wrote:",
        "Am 02.03.2026 um 09:15 schrieb Desk <desk@homes.example>:",
        "Le lun. 2 mars 2026 à 09:15, Desk <desk@homes.example> a écrit :",
        "El lun, 2 mar 2026 a las 9:15, Desk (<desk@homes.example>) escribió:",
        "Il giorno lun 2 mar 2026 alle ore 09:15 Desk <desk@homes.example> ha scritto:",
        "Op ma 2 mrt 2026 om 09:15 schreef Desk <desk@homes.example>:",
        "man. 2. mars 2026 kl. 09:15 skrev Desk <desk@homes.example>:",
        "pon., 2 mar 2026 o 09:15 Desk <desk@homes.example> napisał(a):",
        "пн, 2 мар. 2026 г. в 09:15, Desk <desk@homes.example>:",
        "2026年3月2日(月) 9:15 Desk <desk@homes.example>:",
        "2026年3月2日 09:15，Desk <desk@homes.example> 写道：",
        "2 Mar 2026 Pzt, 09:15 tarihinde Desk <desk@homes.example> şunu yazdı:",
        "-----Original Message-----\nFrom: Desk\nSent: Monday\nTo: Jo\nSubject: Boiler",
        "Von: Desk <desk@homes.example>\nGesendet: Montag\nAn: Jo\nBetreff: Boiler",
        "________________________________\nDe : Desk\nEnvoyé : lundi\nÀ : Jo\nObjet : Boiler",
        "差出人: Desk <desk@homes.example>\n送信日時: 2026年3月2日\n宛先: Jo\n件名: Boiler",
    ],
)
def test_a_quote_is_known_by_its_introduction_in_any_language(introduction: str) -> None:
    assert strip_quotes(f"Tomorrow at nine.\n\n{introduction}\n\nWhen can we come?") == "Tomorrow at nine."
    marked = "\n".join(f"> {line}" for line in ("When can we come?", "", "The desk"))
    assert strip_quotes(f"Tomorrow at nine.\n\n{introduction}\n{marked}\n") == "Tomorrow at nine."


@pytest.mark.parametrize(
    "text",
    [
        "Here are my details:\nName: Jo Doe\nEmail: jo@tenants.example\nBorn: 1990-01-01\nPhone: 555-0100",
        "Please write to bob@tenants.example before 12:30 with the following:\n- keys\n- papers",
        "From: the kitchen\nTo: the bath\nit is all wet",
        "It happened on 2026-03-02 at 09:15:\nthe boiler stopped.",
        "----\nhello\n----",
        "> only a quote",
        "---------- Forwarded message ---------\nFrom: A <a@b.example>\nDate: Mon\nSubject: Leak\nTo: Jo\n\nIt leaks",
        "Sent from my iPhone",
    ],
)
def test_what_only_looks_like_a_quote_stays(text: str) -> None:
    assert strip_quotes(text) == text


def test_an_answer_below_a_quote_is_what_is_new() -> None:
    assert strip_quotes("On 04/02/2012 06:26 PM, Desk wrote:\n> Hi\nHello") == "Hello"


def test_answers_between_quoted_lines_keep_what_they_answer() -> None:
    text = "> When?\nTomorrow.\n> Where?\nAt home."
    assert strip_quotes(text) == text


def test_the_line_that_a_telephone_adds_is_not_what_was_said() -> None:
    for line in ("Sent from my iPhone", "Get Outlook for iOS<https://aka.ms/o0ukef>", "Von meinem iPhone gesendet"):
        assert strip_quotes(f"Tomorrow.\n\n{line}") == "Tomorrow."


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "quotequail", None)
    with pytest.raises(MissingExtra, match=r"pip install 'afterturn\[channels\]'"):
        strip_quotes("Hello\n> Hi")


def _expected() -> dict[str, str]:
    expected: dict[str, str] = json.loads(sample("email-reply-text/expected_visible.json"))
    return expected


ROUNDS = 60
REPLIES = sorted((SAMPLES / "email-reply-text").glob("*.txt"))


@here
@pytest.mark.parametrize("path", REPLIES, ids=lambda path: path.stem)
def test_a_damaged_text_keeps_something_that_was_said(path: Path) -> None:
    sound = path.read_bytes()
    for seed in range(ROUNDS):
        text = mutate_mail(sound, random.Random(f"{path.stem}{seed}")).decode(errors="replace")
        assert not text.strip() or strip_quotes(text).strip(), f"seed {seed}"
