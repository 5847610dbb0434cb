"""Typed tables and pages, and the forms they are written in."""
