"""How customers' messages come in and replies go out: a folder for each provider, and what they share.

``registry.py`` lists the providers; ``ingest.py`` stores what a webhook brings; ``auto_reply.py`` asks the agent;
``outbox.py`` sends. The endpoints' router is ``webhooks.py``.
"""
