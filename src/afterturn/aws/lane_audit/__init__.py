"""``afterturn aws lane audit``: compares the configuration of a lane's runtimes with what the lane expects.

The audit of conversations is ``ledger/``.
"""
