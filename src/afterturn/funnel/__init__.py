"""Channels in: verify what a provider sent, read it, and find its conversation."""
