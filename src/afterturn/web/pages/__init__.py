"""The pages that operators live in: rendered here, complete without a script, made quicker by a few.

Handlers are thin; what a page shows is a view model, made by pure functions from records.
"""
