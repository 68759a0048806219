"""The stream on two SQS FIFO queues. Nothing here loads a driver: a client comes from outside."""

from afterturn.stream.sqs.client import PUBLISHING, READING, ClientTimeouts, QueueUrls, SqsClient
from afterturn.stream.sqs.stream import LONG_POLL, SqsPublisher, SqsStream, find_queues, open_publisher, open_stream

__all__ = [
    "LONG_POLL",
    "PUBLISHING",
    "READING",
    "ClientTimeouts",
    "QueueUrls",
    "SqsClient",
    "SqsPublisher",
    "SqsStream",
    "find_queues",
    "open_publisher",
    "open_stream",
]
