"""The operators' pages: rendered on the server, complete without scripts.

Handlers are thin; what a page shows is a view model, made by pure functions from records.
"""
