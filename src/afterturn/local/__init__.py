"""What the local profile starts on this machine, and stops again."""
