"""Lane audit: compares the configuration of a lane's runtimes with what the lane expects."""
