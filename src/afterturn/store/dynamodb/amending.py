"""What changes records that are there: edits. Each is written only if the record is still as it was read."""

from __future__ import annotations

from datetime import datetime

from afterturn.clock import to_text
from afterturn.errors import InvalidRecord
from afterturn.store import rules
from afterturn.store.dynamodb import keys, rows
from afterturn.store.dynamodb.attributes import MAX_ITEM_BYTES, Plain, item_bytes
from afterturn.store.dynamodb.requests import IS_THERE, Query, all_of, all_starting, equals, unchanged, update
from afterturn.store.dynamodb.table import Table


class Amending:
    def __init__(self, table: Table) -> None:
        self._table = table

    async def edit_message(self, conversation_id: str, provider_id: str, text: str, at: datetime) -> bool:
        """Looks for the message through the thread, from its end: edits are rare, and of what was said last."""
        changes = {"text": text, "editedAt": to_text(at)}
        is_sent = False

        async def unit() -> bool:
            nonlocal is_sent
            known = await self._table.get(keys.known_provider(conversation_id, provider_id))
            item = None if known is None else await self._message(conversation_id, known["seq"])
            if item is None:
                return False
            if is_sent and all(item.get(name) == value for name, value in changes.items()):
                return True  # our own write, whose answer was lost
            if not rules.edit_changes(item["text"], rows.time_or_none(item.get("editedAt")), text, at):
                return False
            if (size := item_bytes(item | changes)) > MAX_ITEM_BYTES:
                problem = f"makes a message of {size} bytes with its attachments; DynamoDB holds {MAX_ITEM_BYTES}"
                raise InvalidRecord("text", problem)
            is_sent = True
            is_same = all_of(IS_THERE, unchanged("editedAt", value=item.get("editedAt")))
            await self._table.write(update((item["PK"], item["SK"]), changes, is_same))
            return True

        return await self._table.until_done(unit)

    async def _message(self, conversation_id: str, seq: int) -> Plain | None:
        query = Query(
            keys.conversation(conversation_id),
            within=all_starting(keys.MESSAGES),
            newest_first=True,
            only=equals("seq", value=seq),
        )
        async for item in self._table.items(query):
            return item
        return None
