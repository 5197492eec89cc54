from fairseq_ext.text.cleaning.tally import MAX_SAMPLES, Drop, Tally


def test_samples_are_few_and_do_not_depend_on_the_cut_into_blocks() -> None:
    drops = [Drop(line, "length", "", str(line), "x") for line in range(1, 500)]
    whole, cut = Tally({}), Tally({})
    whole.add_block({"pairs": 499, "changed": 0, "kept": 0}, drops)
    for start in range(0, 499, 7):
        cut.add_block({"pairs": 7, "changed": 0, "kept": 0}, drops[start : start + 7])
    lines = [drop.line for drop in whole.samples_of("length")]
    assert cut.samples_of("length") == whole.samples_of("length")
    assert len(lines) == MAX_SAMPLES
    assert lines == sorted(lines) != list(range(1, MAX_SAMPLES + 1))
