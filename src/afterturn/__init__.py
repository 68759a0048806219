"""afterturn: the durable backbone behind an AI agent that talks to customers."""
