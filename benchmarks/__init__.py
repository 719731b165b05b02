"""Figures, each beside a reference measured in the same run; tests assert no speed."""
