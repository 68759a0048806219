"""Work orders: what is to be repaired."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse
from pydantic import Field

from afterturn.model import Id
from afterturn.web.api import shapes
from afterturn.web.api.common import JsonRoute, LimitParameters, Reached, answers, errors, told

router = APIRouter(prefix="/work-orders", route_class=JsonRoute, tags=["work orders"])


class OrderParameters(LimitParameters):
    conversation: Annotated[Id | None, Field(description="Of this conversation.")] = None
    all: Annotated[bool, Field(description="Closed ones, too.")] = False


@router.get(
    "",
    responses={
        **answers(shapes.WorkOrdersShape, "Work orders.", {"workOrders": [shapes.ORDER], "complete": True}),
        **errors(404),
    },
)
async def list_work_orders(reach: Reached, asked: Annotated[OrderParameters, Query()]) -> JSONResponse:
    """Work orders, the most urgent first."""
    found, complete = await reach.orders(conversation_id=asked.conversation, open_only=not asked.all, limit=asked.limit)
    return told({"workOrders": [one.to_json() for one in found], "complete": complete})
