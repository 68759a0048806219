"""The inbox and its conversations over HTTP say what the store says."""

from __future__ import annotations

from tests.web.rig import API, Rig, error_of, ids

INBOX = f"{API}/conversations"


async def test_an_odd_id_is_one_segment_of_the_address(rig: Rig) -> None:
    for odd in ("a/b", "100%", "a%2Fb", "<x@y.example>", "ü ?#"):
        await rig.settle(odd)
    async with rig.client("desk") as client:
        from urllib.parse import quote

        for odd in ("a/b", "100%", "a%2Fb", "<x@y.example>", "ü ?#"):
            answer = await client.get(f"{INBOX}/{quote(odd, safe='')}/messages")
            assert answer.status_code == 200, answer.text
            assert answer.json()["messages"][0]["id"] == f"{odd}-m0"


async def test_paging_meets_each_once(rig: Rig) -> None:
    for number in range(1, 10):
        await rig.settle(f"c{number}")
    async with rig.client("desk") as client:
        first = await client.get(INBOX, params={"limit": 3})
        assert ids(first) == ["c9", "c8", "c7"]
        error = error_of(await client.get(INBOX, params={"limit": 3, "cursor": "null"}))
        assert error["code"] == "invalid_cursor"


async def test_a_grade_that_nobody_gives_is_refused_with_those_that_are(rig: Rig) -> None:
    async with rig.client("desk") as client:
        assert (await client.get(INBOX, params={"grade": ["a", "F"]})).status_code == 200
        answer = await client.get(INBOX, params={"grade": ["A", "Z"]})
    error = error_of(answer)
    assert (answer.status_code, error["field"]) == (422, "grade[1]")
    assert "has to be A, B, C, D or F" in error["message"]
