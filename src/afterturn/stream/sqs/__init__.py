"""The stream on two SQS FIFO queues. Nothing here loads a driver: a client comes from outside."""

from afterturn.stream.sqs.client import PUBLISHING, READING, ClientTimeouts, QueueUrls, SqsClient
from afterturn.stream.sqs.opening import LONG_POLL, find_queues, open_publisher, open_stream
from afterturn.stream.sqs.publisher import SqsPublisher
from afterturn.stream.sqs.stream import SqsStream

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
