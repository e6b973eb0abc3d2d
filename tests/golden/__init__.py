"""What trainings came to when they were last looked at."""
