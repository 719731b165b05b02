"""What an operator sees and steers."""
