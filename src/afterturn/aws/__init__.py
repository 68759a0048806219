"""What the adapters on AWS share: sessions, errors, the table. Nothing here loads a driver until a client is opened."""
