"""The shipped reactions, a module each: topics, grade, maintenance, webhook …; ``shipped.py`` lists them."""
