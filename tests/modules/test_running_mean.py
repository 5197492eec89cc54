import torch

from fairseq_ext.modules.running_mean import Positions, RunningMean, sequence_mean


def test_mean_of_every_prefix() -> None:
    x = torch.randn(5, 2, 3)
    means = RunningMean()(x)
    for t in range(5):
        torch.testing.assert_close(means[t], x[: t + 1].mean(0))


def test_padding_does_not_count_on_either_side() -> None:
    x = torch.randn(4, 2, 3)
    mask = torch.tensor([[True, False, False, False], [False, False, True, True]])
    means = RunningMean()(x, Positions(mask))
    torch.testing.assert_close(means[3, 0], x[1:, 0].mean(0))
    torch.testing.assert_close(means[3, 1], x[:2, 1].mean(0))
    assert torch.equal(means[0, 0], torch.zeros(3))  # nothing seen yet


def test_step_by_step_equals_at_once_and_follows_the_beam() -> None:
    mean, x = RunningMean(), torch.randn(6, 3, 2)
    state: dict = {}
    first = [mean.step(x[t : t + 1], state) for t in range(3)]
    order = torch.tensor([2, 0, 0])
    mean.reorder_incremental_state(state, order)
    rest = x[:, order]
    last = [mean.step(rest[t : t + 1], state) for t in range(3, 6)]
    torch.testing.assert_close(torch.cat(first), mean(x)[:3])
    torch.testing.assert_close(torch.cat(last), mean(rest)[3:])


def test_half_precision_sums_in_full() -> None:
    x = torch.full((4096, 1, 1), 1.001, dtype=torch.bfloat16)
    assert RunningMean()(x)[-1].item() == x[0].item()


def test_sequence_mean_leaves_padding_out() -> None:
    x = torch.randn(3, 2, 4)
    mask = torch.tensor([[False, False, True], [False, False, False]])
    mean = sequence_mean(x, Positions(mask))
    torch.testing.assert_close(mean[0, 0], x[:2, 0].mean(0))
    torch.testing.assert_close(mean[0, 1], x[:, 1].mean(0))
    torch.testing.assert_close(sequence_mean(x)[0], x.mean(0))
