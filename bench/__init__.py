"""Benchmarks: each measures afterturn against a baseline in the same run, prints a table and writes JSON."""
