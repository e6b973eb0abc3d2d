"""Engines that place workers on many machines; the queue that these share is all that lasts."""
