"""`millstream demo`: a synthetic social feed, three views over it, and the proof that they are right."""
