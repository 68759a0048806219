"""The one reader of the stream: it signals every consumer."""
