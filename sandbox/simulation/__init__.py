"""The whole system in one process on a simulated clock: real handlers, in-memory AWS, fake Marketplace."""
