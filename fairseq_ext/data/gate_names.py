"""Names of gate weights, in models and in files."""

SIDES = ("encoder", "decoder")
# Weights that single inputs would give alone, for gates with several inputs.
SOURCE = "source"
STATES = ("encoder_states", "decoder_states")
TOKENS = "tokens"  # the decoder's weights at each target token
