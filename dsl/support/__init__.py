"""What Python itself does not have, or not in this form. Nothing here knows the language."""
