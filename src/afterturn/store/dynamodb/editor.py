"""Changes of stored records: edits, patches, send problems, closed work orders.

Each is written only if the record is unchanged since it was read.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from afterturn.aws.table import PROPERTY_RECENCY
from afterturn.clock import to_text
from afterturn.errors import InvalidRecord, NotFound
from afterturn.model import Conversation, ConversationPatch, SendProblem, Status, WorkOrder
from afterturn.store import invariants
from afterturn.store.dynamodb import keys, rows
from afterturn.store.dynamodb.attributes import MAX_ITEM_BYTES, Plain, item_bytes
from afterturn.store.dynamodb.requests import IS_THERE, Query, all_of, all_starting, equals, unchanged, update
from afterturn.store.dynamodb.table import Table


class ConversationEditor:
    def __init__(self, table: Table) -> None:
        self._table = table

    async def edit_message(self, conversation_id: str, provider_id: str, text: str, at: datetime) -> bool:
        """Searches the thread from its end: edits are rare and mostly of recent messages."""
        changes = {"text": text, "editedAt": to_text(at)}
        is_sent = False

        async def unit() -> bool:
            nonlocal is_sent
            known = await self._table.get(keys.known_provider(conversation_id, provider_id))
            item = None if known is None else await self._message(conversation_id, known["seq"])
            if item is None:
                return False
            if is_sent and all(item.get(name) == value for name, value in changes.items()):
                return True  # our own write, whose response was lost
            if not invariants.edit_changes(item["text"], rows.time_or_none(item.get("editedAt")), text, at):
                return False
            if (size := item_bytes(item | changes)) > MAX_ITEM_BYTES:
                problem = f"makes a message of {size} bytes with its attachments; DynamoDB holds {MAX_ITEM_BYTES}"
                raise InvalidRecord("text", problem)
            is_sent = True
            is_same = all_of(IS_THERE, unchanged("editedAt", value=item.get("editedAt")))
            edit = update((item["PK"], item["SK"]), changes, is_same)
            # A message that the row does not preview now never will be: a preview gives way to newer messages only.
            meta = await self._table.get(keys.meta(conversation_id), ["preview"])
            preview = (meta or {}).get("preview")
            if preview is None or preview["messageId"] != item["id"]:
                await self._table.write(edit)
            else:
                changed = {"preview": preview | {"text": invariants.preview_text(text)}}
                is_previewed = equals("preview", value=preview)
                await self._table.transact([edit, update(keys.meta(conversation_id), changed, is_previewed)])
            return True

        return await self._table.until_done(unit)

    async def set_send_problem(self, conversation_id: str, message_id: str, problem: SendProblem | None) -> None:
        async def unit() -> None:
            meta = await self._table.get(keys.meta(conversation_id), ["preview"])
            preview = (meta or {}).get("preview")
            if preview is None or preview["messageId"] != message_id:
                return
            changed = {name: value for name, value in preview.items() if name != "sendProblem"}
            if problem is not None:
                changed["sendProblem"] = problem.to_json()
            if changed != preview:
                is_same = equals("preview", value=preview)
                await self._table.write(update(keys.meta(conversation_id), {"preview": changed}, is_same))

        await self._table.until_done(unit)

    async def patch_conversation(
        self, conversation_id: str, patch: ConversationPatch, revision: int | None, now: datetime
    ) -> Conversation:
        """Also raises ``rev``, so a concurrent turn is planned again."""
        call = uuid.uuid4().hex

        async def unit() -> Conversation:
            item = await self._table.get(keys.meta(conversation_id))
            if item is None:
                raise NotFound(f"no conversation {conversation_id!r}")
            if item.get("patchedBy") == call:
                return rows.conversation(item)  # our own write, whose response was lost
            stored = item.get("revision") or 0
            invariants.check_revision(conversation_id, stored, revision)
            changes = _patch_attributes(patch, item.get("messageCount") or 0)
            attributes = {"revision": stored + 1, "patchedAt": to_text(now), "patchedBy": call}
            is_same = all_of(IS_THERE, unchanged("rev", value=item.get("rev")))
            written = update(keys.meta(conversation_id), changes | attributes, is_same, adds={"rev": 1})
            return rows.conversation(await self._table.write(written))

        return await self._table.until_done(unit)

    async def close_work_order(self, conversation_id: str, order_id: str, now: datetime) -> WorkOrder | None:
        """Moves the work order from the open to the closed partition of its index."""
        key = keys.work_order(conversation_id, order_id)

        async def unit() -> WorkOrder | None:
            item = await self._table.get(key)
            if item is None:
                return None
            stored = rows.work_order(item)
            if stored.status is Status.CLOSED:
                return stored
            closed = stored.model_copy(update={"status": Status.CLOSED})
            changes = rows.urgency_attributes(closed) | {"status": closed.status.value, "closedAt": to_text(now)}
            is_same = [equals(name, value=item[name]) for name in ("urgency", "status")]
            return rows.work_order(await self._table.write(update(key, changes, all_of(*is_same))))

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


def _patch_attributes(patch: ConversationPatch, message_count: int) -> Plain:
    """The attributes that a patch writes. The row can move in the property index, not in the recency index."""
    changes = patch.changes
    sets: Plain = {}
    if "assignee" in changes:
        sets["assignee"] = patch.assignee
    if "property_id" in changes:
        sets |= {"propertyId": patch.property_id, "propertyPinned": True}
        sets[PROPERTY_RECENCY.pk] = keys.of_property(patch.property_id)
    if "status" in changes:
        is_closed = patch.status is Status.CLOSED
        sets |= {"status": patch.status.value, "closedSeq": message_count if is_closed else None}
    return sets
