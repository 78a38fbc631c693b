"""Changes of a watched program, made by hooks while it runs, measured, and kept or taken back."""
