"""Figures, each beside a reference measured in the same run. Speed is measured here, never asserted in a test."""
