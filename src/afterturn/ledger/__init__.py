"""What is owed: audit it, sweep it, replay history."""
