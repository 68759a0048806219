"""What happens after a turn: who reacts (registry), when (debounce), how (run), on which engine (port)."""
