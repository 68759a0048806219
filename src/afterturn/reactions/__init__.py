"""How reactions run: registration (registry), when (debounce), one run (run), and the engines.

What the shipped reactions decide is in ``consumers/``. A reaction of your own is a function in your project.
"""
