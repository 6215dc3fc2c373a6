"""Playing episodes: one at a time, in groups, and from the view of any player."""
