"""What scripts/test is made of: the table of layers, what a change triggers, running them, and what was proven."""
