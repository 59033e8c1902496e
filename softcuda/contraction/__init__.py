"""Contractions as data: labels and their classes; pure functions without devices."""
