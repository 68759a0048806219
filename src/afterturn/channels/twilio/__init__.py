"""twilio."""
