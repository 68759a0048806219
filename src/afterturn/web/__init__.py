"""The HTTP side: API and pages. It takes an open backbone and imports no adapter.

Nothing is imported from here: the web extra is needed from ``app`` on, not for tokens and settings.
"""
