"""Where settled turns wait for the bridge, in order for each conversation, with dead letters and their redrive."""
