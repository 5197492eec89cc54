import torch

from fairseq_ext.modules.running_mean import Positions, RunningMean, sequence_mean


def test_means_of_every_prefix_and_of_all_leave_padding_out_on_either_side() -> None:
    x, mask = torch.randn(4, 2, 3), torch.tensor([[True, False, False, False], [False, False, True, True]])
    means, all_means = RunningMean()(x, Positions(mask)), sequence_mean(x, Positions(mask))[0]
    for t in range(4):
        torch.testing.assert_close(RunningMean()(x)[t], x[: t + 1].mean(0))
        torch.testing.assert_close(means[t, 1], x[: min(t + 1, 2), 1].mean(0))
    assert torch.equal(means[0, 0], torch.zeros(3))  # nothing seen yet
    torch.testing.assert_close(means[3], all_means)
    torch.testing.assert_close(all_means, torch.stack([x[1:, 0].mean(0), x[:2, 1].mean(0)]))
    torch.testing.assert_close(sequence_mean(x)[0], x.mean(0))


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
    torch.testing.assert_close(mean.step(x[:1], {}, scale=0.5), 2 * x[:1])


def test_half_precision_sums_in_full() -> None:
    x = torch.full((4096, 1, 1), 1.001, dtype=torch.bfloat16)
    assert RunningMean()(x)[-1].item() == x[0].item()
    mean, state = RunningMean(), {}
    steps = [mean.step(torch.ones(1, 1, 1, dtype=torch.bfloat16), state) for _ in range(300)]  # 256 + 1 is 256 there
    assert steps[-1].item() == 1
