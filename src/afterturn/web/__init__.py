"""What people and programs reach over HTTP. It takes an open backbone, and never names an adapter.

Nothing is imported from here: the web extra is needed from ``app`` on, not for tokens and settings.
"""
