"""Everything about AWS that is no adapter: sessions, errors, the stack, releases, indexes, the lane audit.

The adapters are ``store/dynamodb/`` and ``stream/sqs/``. Nothing here loads a driver until a client is opened.
"""
