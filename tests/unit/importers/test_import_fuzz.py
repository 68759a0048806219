"""Damaged files: a reader yields records and bad records or refuses the file, and does nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.unit.importers.helpers import NOW, SAMPLES

from afterturn.errors import InvalidInput
from afterturn.importers import BadRecord, ImportedConversation, read

FORMATS = {
    "own.jsonl": "afterturn",
    "dialogues.jsonl": "dialogues",
    "mail.mbox": "mbox",
    "result.json": "telegram",
    "sms.xml": "sms",
}
ROUNDS = 400
SPICE = (
    *(b"\x00", b"\xff", b"\xed\xa0\xbd", b"\xef\xbf\xbe", b"\n", b"\n\n", b"\r", b'"', b"\\ud83d", b"&#55357;"),
    *(b"&#56832;", b"&", b"<", b"]]>", b"<![", b"<!--", b"=?utf-8?B?/?=", b"=?x?Q?=", b"[" * 3000, b"1" * 5000),
    *(b"-1", b"null", b"{}", b"[]", b"\nFrom ", b"--b", b"Content-Type: ", b"; charset*=x'y'%", b"+99999"),
)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_named_or_refused_and_crashes_nothing(tmp_path: Path, name: str, named: bool) -> None:
    sample = (SAMPLES / name).read_bytes()
    path = tmp_path / name
    for seed in range(ROUNDS):
        path.write_bytes(_damaged(sample, random.Random(f"{name}{seed}")))
        try:
            items = list(read(path, format=FORMATS[name] if named else None, clock=lambda: NOW))
        except InvalidInput:
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed} of {name}") from error
        for item in items:
            assert isinstance(item, BadRecord | ImportedConversation), f"seed {seed}"
            if isinstance(item, ImportedConversation):
                assert all(message.at <= NOW for message in item.messages), f"seed {seed}"
                assert len({message.id for message in item.messages}) == len(item.messages), f"seed {seed}"
                repr(item).encode()


@pytest.mark.parametrize("foreign", FORMATS)
@pytest.mark.parametrize("name", FORMATS)
def test_a_file_read_as_another_format_is_named_or_refused(name: str, foreign: str) -> None:
    try:
        items = list(read(SAMPLES / name, format=FORMATS[foreign], clock=lambda: NOW))
    except InvalidInput:
        return
    assert name == foreign or all(isinstance(item, BadRecord) for item in items)


def _damaged(data: bytes, chance: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(len(result) + 1)
        match chance.randrange(6):
            case 0:
                del result[at:]
            case 1:
                del result[at : at + chance.randrange(1, 40)]
            case 2:
                result[at:at] = chance.choice(SPICE)
            case 3 if at < len(result):
                result[at] = chance.randrange(256)
            case 4 if at < len(result):
                result[at] ^= 1 << chance.randrange(8)
            case _:
                other = chance.randrange(len(result) + 1)
                result[at:at] = result[other : other + chance.randrange(1, 60)]
    return bytes(result)
