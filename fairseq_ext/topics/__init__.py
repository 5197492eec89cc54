"""Topic models measured: their topics' words, how these cohere, and the texts that they write."""
