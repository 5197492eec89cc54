"""The commands ``fairseq-ext VERB``. Only this package parses command lines."""
