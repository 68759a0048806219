"""The wires of a lane: what each runtime is really configured with, against what the lane wants."""
