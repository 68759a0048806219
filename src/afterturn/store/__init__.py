"""Where conversations live: the port of domain verbs, and its adapters."""
