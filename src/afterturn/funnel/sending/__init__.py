"""Messages that go out: one client a provider."""
