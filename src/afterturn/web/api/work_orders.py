"""Work orders."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import JSONResponse
from pydantic import Field

from afterturn.model import Id, WorkOrder
from afterturn.web.api import shapes
from afterturn.web.api.common import (
    ConversationId,
    JsonRoute,
    ListParameters,
    StoreOfCaller,
    documented,
    documented_errors,
    json_response,
    list_response,
)
from afterturn.web.middleware import unquoted

router = APIRouter(route_class=JsonRoute, tags=["work orders"])


class OrderParameters(ListParameters):
    conversation: Annotated[Id | None, Field(description="Of this conversation.")] = None
    all: Annotated[bool, Field(description="Include closed ones.")] = False


@router.get(
    "/work-orders",
    responses={
        **documented(
            shapes.WorkOrdersShape, "Work orders.", {"workOrders": [shapes.ORDER], "nextCursor": None, "complete": True}
        ),
        **documented_errors(400, 404),
    },
)
async def list_work_orders(scoped: StoreOfCaller, asked: Annotated[OrderParameters, Query()]) -> JSONResponse:
    """List work orders, most urgent first. A page may hold fewer than `limit`: `nextCursor` says whether it goes on."""
    found = await scoped.orders(
        conversation_id=asked.conversation, open_only=not asked.all, limit=asked.limit, cursor=asked.cursor
    )
    return list_response("workOrders", [one.to_json() for one in found.items], found.next_cursor)


def _order_id(order_id: Annotated[str, Path(description="The id of a work order.", max_length=800)]) -> str:
    return unquoted(order_id)


@router.post(
    "/conversations/{conversation_id}/work-orders/{order_id}/close",
    responses={
        **documented(WorkOrder, "It is closed.", {**shapes.ORDER, "status": "closed"}),
        **documented_errors(404),
    },
)
async def close_work_order(
    scoped: StoreOfCaller, conversation_id: ConversationId, order_id: Annotated[str, Depends(_order_id)]
) -> JSONResponse:
    """Close a work order. A repetition changes nothing; no reaction opens it again."""
    return json_response((await scoped.close(conversation_id, order_id)).to_json())
