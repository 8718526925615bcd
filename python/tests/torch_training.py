# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""A small tensor-parallel transformer, once with tilery's layers and once with torch.distributed's
collectives as Megatron-LM places them (Shoeybi et al. 2019; Korthikanti et al. 2022)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from tilery.interop import torch as interop

VOCABULARY, WIDTH, HEADS, MLP, TOKENS, BATCH = 48, 32, 4, 64, 16, 4


class Move(torch.autograd.Function):
    """Two of torch.distributed's collectives, forwards and backwards. On the host, since gloo lacks some
    of them on a GPU."""

    @staticmethod
    def forward(ctx, x, forwards, backwards):
        ctx.backwards = backwards
        return forwards(x)

    @staticmethod
    def backward(ctx, grad):
        return ctx.backwards(grad), None, None


def same(x):
    return x.clone()


def summed(x):
    total = x.cpu().contiguous().clone()
    dist.all_reduce(total)
    return total.to(x.device)


def gathered(x):
    part = x.cpu().contiguous()
    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, part)
    return torch.cat(parts).to(x.device)


def own_part(x):
    return x.chunk(dist.get_world_size())[dist.get_rank()].clone()


def scattered(x):
    return own_part(summed(x))


class PlainColumn(nn.Module):
    def __init__(self, weight, bias, sequence_parallel):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.moves = (gathered, scattered) if sequence_parallel else (same, summed)

    def forward(self, x):
        return F.linear(Move.apply(x, *self.moves), self.weight, self.bias)


class PlainRow(nn.Module):
    def __init__(self, weight, bias, sequence_parallel):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.moves = (scattered, gathered) if sequence_parallel else (summed, same)
        self.sequence_parallel = sequence_parallel

    def forward(self, x):
        bias = Move.apply(self.bias, same, summed) if self.sequence_parallel else self.bias
        return Move.apply(F.linear(x, self.weight), *self.moves) + bias


class Block(nn.Module):
    """Attention over this rank's heads and an MLP, each a column- and a row-parallel layer."""

    def __init__(self, column, row, norm):
        super().__init__()
        self.norms = nn.ModuleList([norm(), norm()])
        self.qkv, self.out = column(WIDTH, 3 * WIDTH), row(WIDTH, WIDTH)
        self.up, self.down = column(WIDTH, MLP), row(MLP, WIDTH)

    def attention(self, x):
        """[tokens, batch, 3 * own heads * head] to [tokens, batch, own heads * head]."""
        tokens, batch = x.shape[:2]
        q, k, v = x.view(tokens, batch, -1, 3, WIDTH // HEADS).permute(3, 1, 2, 0, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.permute(2, 0, 1, 3).flatten(2)

    def forward(self, x):
        x = x + self.out(self.attention(self.qkv(self.norms[0](x))))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Norm(nn.LayerNorm):
    """In a sequence-parallel region each rank sees some tokens, so that gradients must be summed."""

    def __init__(self, sum_gradients=None, **options):
        super().__init__(WIDTH, **options)
        self.sum_gradients = sum_gradients or (lambda x: x)

    def forward(self, x):
        return F.layer_norm(x, (WIDTH,), self.sum_gradients(self.weight), self.sum_gradients(self.bias))


class Transformer(nn.Module):
    def __init__(self, parts, column, row, norm):
        super().__init__()
        self.enter, self.leave = parts
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(column, row, norm) for _ in range(2))
        self.norm = norm()
        self.head = column(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.enter(self.embedding(tokens))
        for block in self.blocks:
            x = block(x)
        return self.leave(self.head(self.norm(x)))


def seeded_linear(seed, inputs, outputs):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(outputs, inputs, generator=generator) * inputs**-0.5,
            torch.randn(outputs, generator=generator) * 0.1)


def ours(sequence_parallel: bool) -> Transformer:
    def column(weight, bias, kind=interop.ColumnParallelLinear):
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.load_state_dict({"weight": weight, "bias": bias})
        return kind.from_linear(linear, sequence_parallel=sequence_parallel)

    def logits(x):
        return interop.all_gather(x, dim=-1, replicated=True)

    enter = interop.shard if sequence_parallel else (lambda x: x)
    return build((enter, logits), column, lambda *of: column(*of, kind=interop.RowParallelLinear),
                 interop.sum_gradients if sequence_parallel else None)


def plain(sequence_parallel: bool) -> Transformer:
    rank, size = dist.get_rank(), dist.get_world_size()

    def column(weight, bias):
        return PlainColumn(weight.chunk(size)[rank], bias.chunk(size)[rank], sequence_parallel)

    def row(weight, bias):
        return PlainRow(weight.chunk(size, 1)[rank].contiguous(), bias, sequence_parallel)

    def enter(x):
        return Move.apply(x, own_part, gathered) if sequence_parallel else x

    def logits(x):
        return Move.apply(x.transpose(0, 2), gathered, own_part).transpose(0, 2)

    return build((enter, logits), column, row,
                 (lambda x: Move.apply(x, same, summed)) if sequence_parallel else None)


def build(parts, column, row, sum_gradients) -> Transformer:
    seeds = [101]

    def seeded(make):
        def layer(inputs, outputs):
            seeds[0] += 1
            return make(*seeded_linear(seeds[0], inputs, outputs))
        return layer

    torch.manual_seed(1)  # the embedding
    return Transformer(parts, seeded(column), seeded(row), lambda: Norm(sum_gradients))


def batch(step: int, device):
    """Sequences in which a token follows from the one before: there is something to learn."""
    generator = torch.Generator().manual_seed(step)
    tokens = [torch.randint(VOCABULARY, (BATCH,), generator=generator)]
    for _ in range(TOKENS):
        tokens.append((tokens[-1] * 5 + 7) % VOCABULARY)
    tokens = torch.stack(tokens).to(device)
    return tokens[:-1], tokens[1:]


def losses(model, device, steps: int, compiled: bool = False) -> list[float]:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    run = torch.compile(model, backend="aot_eager") if compiled else model
    seen = []
    for step in range(steps):
        tokens, following = batch(step, device)
        loss = F.cross_entropy(run(tokens).flatten(0, 1), following.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        seen.append(loss.item())
    return seen


def train(device, sequence_parallel: bool, steps: int = 50, compiled: bool = False) -> dict:
    """The losses of our model, of the plain one, and of the plain one in float64."""
    torch.backends.cuda.matmul.allow_tf32 = True  # as our float32 products
    made = ours(sequence_parallel).to(device)
    return {"ours": losses(made, device, steps, compiled),
            "plain": losses(plain(sequence_parallel).to(device), device, steps),
            "exact": losses(plain(sequence_parallel).double().to(device), device, steps)}
