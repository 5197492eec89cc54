"""``fairseq-ext VERB``: the commands of this project, and the only place that reads command lines."""
