"""What an iteration costs: predicted from settings, and measured."""
