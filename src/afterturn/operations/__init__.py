"""What is done to an AWS account by hand: provision, alarms, indexes, layouts. Deciding is pure; doing is thin."""
