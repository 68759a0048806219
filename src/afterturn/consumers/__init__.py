"""The reactions that ship: what they judge by rules, and how one's own are written (see ``sentiment``)."""
