"""What we change in fairseq itself, one file each, with the reason."""
