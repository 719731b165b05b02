"""What users test their own parts with: suites, fixtures, fault injection."""
