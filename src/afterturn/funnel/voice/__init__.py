"""Calls. One module for each provider; what a call is to us is made in :mod:`~afterturn.funnel.voice.calls`."""
