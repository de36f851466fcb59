"""Measure, explain, tune, judge and report how fast data reaches a training step."""
