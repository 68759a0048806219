"""Requests as a Lambda function URL hands them on, and answers as it wants them (payload format 2.0)."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from afterturn.channels.responses import WebhookResponse
from afterturn.channels.types import Rejected, WebhookRequest


def parse_request(event: Any) -> tuple[str, WebhookRequest]:
    """The path and the request. Raises Rejected for what no function URL sends."""
    try:
        about = event["requestContext"]["http"]
        headers = {str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()}
        body = event.get("body") or ""
        data = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else body.encode()
        path, query = str(event["rawPath"]), str(event.get("rawQueryString") or "")
        url = f"https://{headers.get('host', '')}{path}" + (f"?{query}" if query else "")
        return path, WebhookRequest(str(about["method"]), url, headers, data)
    except (KeyError, TypeError, AttributeError, binascii.Error, UnicodeError):
        raise Rejected(400, "this is no request of a function URL") from None


def lambda_response(answer: WebhookResponse) -> dict[str, Any]:
    return {"statusCode": answer.status, "headers": dict(answer.headers), "body": answer.body}
