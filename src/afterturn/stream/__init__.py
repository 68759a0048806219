"""Where settled turns wait for the bridge: durable, in order for each conversation."""
