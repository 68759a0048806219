"""The reaction engine on Temporal: one workflow for each consumer and conversation.

Nothing is imported from here: the bridge takes ``engine`` (a client), the worker takes ``runner``.
"""

from afterturn.errors import MissingExtra

try:
    import temporalio  # noqa: F401
except ImportError as error:
    raise MissingExtra(
        "Temporal needs an extra: pip install 'afterturn[local]', or 'afterturn[aws,temporal]' for AWS"
    ) from error
