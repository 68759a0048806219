"""Runs leased jobs: one retry policy and one runner for every kind."""
