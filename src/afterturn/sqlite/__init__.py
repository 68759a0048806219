"""One SQLite file that several processes may share: the ground of the embedded store, stream and engine."""
