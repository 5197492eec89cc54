"""n-best lists of a translation experiment, re-ranked by language models of each domain, from one file to a report."""
