"""The lane's functions in Lambda: built, published, checked, and only then put behind the alias that serves."""
