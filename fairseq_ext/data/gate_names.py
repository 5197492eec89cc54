"""What weights of gates are called, between models and in files."""

SIDES = ("encoder", "decoder")
# What an input of a gate would decide alone, of gates that see several.
SOURCE = "source"
STATES = ("encoder_states", "decoder_states")
TOKENS = "tokens"  # the decoder's, as it goes
