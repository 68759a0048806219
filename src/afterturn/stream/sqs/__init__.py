"""The stream on two SQS FIFO queues. The driver is loaded only when a stream is opened."""

from afterturn.stream.sqs.client import QueueUrls, SqsClient
from afterturn.stream.sqs.stream import LONG_POLL, SqsPublisher, SqsStream, find_queues, open_publisher, open_stream

__all__ = [
    "LONG_POLL",
    "QueueUrls",
    "SqsClient",
    "SqsPublisher",
    "SqsStream",
    "find_queues",
    "open_publisher",
    "open_stream",
]
