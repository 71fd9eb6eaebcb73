"""Lambda functions and the schedules that call them."""
