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
    json_response,
    responses,
)
from afterturn.web.errors import API
from afterturn.web.middleware import unquoted

router = APIRouter(prefix=API, route_class=JsonRoute, tags=["work orders"])


class OrderParameters(ListParameters):
    conversation: Annotated[Id | None, Field(description="Of this conversation.")] = None
    all: Annotated[bool, Field(description="Include closed ones.")] = False


@router.get(
    "/work-orders",
    responses=responses(shapes.WorkOrdersShape, "Work orders.", 400, 404),
)
async def list_work_orders(scoped: StoreOfCaller, parameters: Annotated[OrderParameters, Query()]) -> JSONResponse:
    """List work orders, most urgent first. A page may hold fewer than `limit`: `nextCursor` says whether it goes on."""
    page = await scoped.orders(
        conversation_id=parameters.conversation,
        open_only=not parameters.all,
        limit=parameters.limit,
        cursor=parameters.cursor,
    )
    orders = [order.to_json() for order in page.items]
    return json_response({"workOrders": orders, "nextCursor": page.next_cursor, "complete": page.next_cursor is None})


def _order_id(order_id: Annotated[str, Path(description="The id of a work order.", max_length=800)]) -> str:
    return unquoted(order_id)


@router.post(
    "/conversations/{conversation_id}/work-orders/{order_id}/close",
    responses=responses(WorkOrder, "It is closed.", 404),
)
async def close_work_order(
    scoped: StoreOfCaller, conversation_id: ConversationId, order_id: Annotated[str, Depends(_order_id)]
) -> JSONResponse:
    """Close a work order. A repetition changes nothing; no reaction opens it again."""
    return json_response((await scoped.close(conversation_id, order_id)).to_json())
