"""What is owed: audit, sweep and replay of conversations."""
