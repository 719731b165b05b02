"""What stands beside the way of an event: one file for each feature that observes events."""
