"""The stream on two SQS FIFO queues. Nothing here loads a driver: a client comes from outside."""

from afterturn.stream.sqs.client import PUBLISHING, READING, Patience, QueueUrls, SqsClient
from afterturn.stream.sqs.publisher import SqsPublisher
from afterturn.stream.sqs.stream import SqsStream

__all__ = ["PUBLISHING", "READING", "Patience", "QueueUrls", "SqsClient", "SqsPublisher", "SqsStream"]
