"""Documents to translate: which of their text is translated, and how the rest stays as it is, byte for byte."""
