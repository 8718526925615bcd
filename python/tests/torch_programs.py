# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""What each rank runs in test_torch_parallel.py: collectives, products, torch.compile, graphs. References
are torch.distributed's collectives and torch's products of whole matrices in float64, on the host."""

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as reference
from torch import nn
from torch_arrays import close, leaf, own, random, ranks

from tilery.interop import torch as interop
from tilery.interop import torch_collectives, torch_groups, torch_products


# ---- Collectives ---------------------------------------------------------------------------


def collectives(device, dtype):
    """Values beside those of torch.distributed."""
    rank, size = ranks()
    dtype = getattr(torch, dtype)
    x = (torch.arange(size * 3 * 5 * 2).reshape(size * 3, 5, 2) % 15 * (rank + 1)).to(dtype)
    mine = x.to(device)
    gathered = [torch.empty_like(x) for _ in range(size)]
    dist.all_gather(gathered, x)
    assert torch.equal(interop.all_gather(mine).cpu(), torch.cat(gathered))
    assert torch.equal(interop.all_gather(mine, dim=1).cpu(), torch.cat(gathered, 1))
    total = x.clone()
    dist.all_reduce(total)
    assert torch.equal(interop.all_reduce(mine).cpu(), total)
    assert torch.equal(interop.reduce_scatter(mine).cpu(), own(total))
    assert torch.equal(interop.reduce_scatter(mine, dim=-2).cpu(), own(total, 1))
    swapped = torch.empty_like(x)
    dist.all_to_all_single(swapped, x)
    assert torch.equal(interop.all_to_all(mine).cpu(), swapped)
    root = size - 1
    sent = x.clone()
    dist.broadcast(sent, root)
    assert torch.equal(interop.broadcast(mine, root).cpu(), sent)
    assert torch.equal(interop.shard(mine, dim=1).cpu(), own(x, 1))
    assert torch.equal(interop.sum_gradients(mine), mine)


def uneven(device):
    """Parts that differ in length, some of them empty."""
    rank, size = ranks()
    for extent in (0, 1, size - 1, size + 1, 2 * size - 1, 3 * size):
        whole = random(extent, extent, 3, device=device)
        part = leaf(own(whole), device)
        gathered = interop.all_gather(part, extent=extent)
        assert torch.equal(gathered, whole)
        (gathered * (rank + 1)).sum().backward()
        assert torch.equal(part.grad, torch.full_like(part, size * (size + 1) / 2))
        assert torch.equal(interop.reduce_scatter(whole), own(whole) * size)
        flipped = interop.all_gather(own(whole.t(), 1), dim=1, extent=extent, replicated=True)
        assert torch.equal(flipped, whole.t())


def heads_to_sequence(device):
    """all_to_all between a sharded sequence and sharded heads, there and back."""
    rank, size = ranks()
    whole = random(5, size * 2, 3, size * 4, 5, device=device)
    part = leaf(own(whole), device)
    heads = interop.all_to_all(part, split_dim=2, concat_dim=0)
    assert torch.equal(heads, own(whole, 2))
    back = interop.all_to_all(heads, split_dim=0, concat_dim=2)
    assert torch.equal(back, part)
    weight = random(6, *whole.shape, device=device)
    (heads * own(weight, 2)).sum().backward()
    assert torch.equal(part.grad, own(weight))


def gradients(device):
    """Beside torch.distributed.nn.functional's, and the ones that replicated=True stands for."""
    rank, size = ranks()
    weight = random(10 + rank, size * 4, 3)
    x = random(20 + rank, size * 4, 3)

    def of(function, x, weight):
        x = leaf(x, weight.device)
        (function(x) * weight).sum().backward()
        return x.grad.cpu()

    def same(ours, theirs, x=x, weight=weight):
        close(of(ours, x, weight.to(device)), of(theirs, x, weight), torch.float32, name=str(theirs))

    tall = random(30 + rank, size * size * 4, 3)
    same(interop.all_gather, lambda x: torch.cat(reference.all_gather(x)), weight=tall)
    same(lambda x: interop.all_reduce(x, replicated=False), reference.all_reduce)
    same(interop.all_to_all,
         lambda x: reference.all_to_all_single(torch.empty_like(x), x))
    same(lambda x: interop.broadcast(x, 1), lambda x: reference.broadcast(x.clone(), 1))
    assert torch.equal(of(interop.all_reduce, x, weight.to(device)), weight)
    same_weight = random(40, size * size * 4, 3)
    replicated = of(lambda x: interop.all_gather(x, replicated=True), x, same_weight.to(device))
    assert torch.equal(replicated, own(same_weight))
    total = weight.clone()
    dist.all_reduce(total)
    close(of(interop.sum_gradients, x, weight.to(device)), total)
    parts = [torch.empty(4, 3) for _ in range(size)]
    part = random(50 + rank, 4, 3)
    dist.all_gather(parts, part)
    assert torch.equal(of(interop.reduce_scatter, x, part.to(device)), torch.cat(parts))
    assert torch.equal(of(interop.shard, x, part.to(device)), torch.cat(parts))


# ---- Products ------------------------------------------------------------------------------


def products(device, dtype, rows, k, n, batch=(), transposed=True, bias=True):
    """All products and gradients beside whole matrices in float64. b is [k, n], spread over n or k."""
    dtype = getattr(torch, dtype)
    a, b = random(1, rows, *batch, k, dtype=dtype), random(2, k, n, dtype=dtype, scale=k**-0.5)
    c = random(3, n, dtype=dtype) if bias else None
    grad = random(4, rows, *batch, n, dtype=dtype)
    a64, b64, c64 = (None if x is None else leaf(x.double()) for x in (a, b, c))
    expected = a64 @ b64 if c64 is None else a64 @ b64 + c64
    expected.backward(grad.double())

    def check(name, function, a_part, b_part, c_part, out, grad_part, a_grad, spread, c_grad):
        a_part, c_part = leaf(a_part, device), None if c_part is None else leaf(c_part, device)
        weight = leaf((b_part.t() if transposed else b_part).contiguous(), device)
        product = function(a_part, weight.t() if transposed else weight, c_part)
        product, gathered = product if isinstance(product, tuple) else (product, None)
        close(product, out, dtype, 4, f"{name} value")
        if gathered is not None:
            assert torch.equal(gathered.cpu(), a)
        product.backward(grad_part.to(device))
        close(a_part.grad, a_grad, dtype, 4, f"{name} gradient of a")
        close(weight.grad, (spread.t() if transposed else spread), dtype, 4, f"{name} gradient of b")
        assert min(weight.shape) < 2 or weight.grad.stride() == weight.stride()
        if c_part is not None:
            close(c_part.grad, c_grad, dtype, 4, f"{name} gradient of bias")

    columns = dict(b_part=own(b, 1), c_part=None if c is None else own(c), out=own(expected, -1),
                   grad_part=own(grad, -1), spread=own(b64.grad, 1),
                   c_grad=None if c is None else own(c64.grad))
    whole = dict(b_part=own(b, 0), c_part=c, spread=own(b64.grad, 0),
                 c_grad=None if c is None else c64.grad)
    for kept in (False, True):
        check("all_gather_matmul", lambda a, b, c: interop.all_gather_matmul(
            a, b, c, extent=rows, return_gathered=kept), own(a), a_grad=own(a64.grad), **columns)
    check("replicated_matmul", interop.replicated_matmul, a, a_grad=a64.grad, **columns)
    check("matmul_reduce_scatter", interop.matmul_reduce_scatter, own(a, -1), out=own(expected),
          grad_part=own(grad), a_grad=own(a64.grad, -1), **whole)
    check("matmul_all_reduce", interop.matmul_all_reduce, own(a, -1), out=expected, grad_part=grad,
          a_grad=own(a64.grad, -1), **whole)


def gathered_gradient(device):
    """Both results of all_gather_matmul are used, and each alone."""
    rank, size = ranks()
    a, b = random(1, size * 4, 6), random(2 + rank, 6, 5)
    w = random(9 + rank, size * 4, 6)
    for uses in ((True, True), (True, False), (False, True)):
        mine, weight = leaf(own(a), device), leaf(b, device)
        product, gathered = interop.all_gather_matmul(mine, weight, return_gathered=True)
        loss = uses[0] * product.sum() if uses[0] else 0
        loss = loss + (gathered * w.to(device)).sum() if uses[1] else loss
        loss.backward()
        total = uses[0] * b.sum(1).expand(size * 4, 6) + uses[1] * w
        dist.all_reduce(total)
        close(mine.grad, own(total), torch.float32, 4)
        assert (weight.grad is not None) == uses[0]


def only_some_gradients(device):
    """Frozen weights, frozen inputs, and none at all."""
    rank, size = ranks()
    a, b, bias = random(1, size * 2, 8, device=device), random(2, 8, 4, device=device), \
        random(3, 4, device=device)
    for needed in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)):
        for function in (interop.all_gather_matmul, interop.matmul_reduce_scatter,
                         interop.matmul_all_reduce, interop.replicated_matmul):
            operands = [leaf(x, device) if need else x for x, need in zip((a, b, bias), needed)]
            out = function(*operands)
            assert out.requires_grad == any(needed)
            if any(needed):
                out.sum().backward()
            assert all((x.grad is not None) == bool(need) for x, need in zip(operands, needed))
        with torch.no_grad():
            assert not interop.all_gather_matmul(a, b).requires_grad


def autocast_and_checkpoint(device):
    rank, size = ranks()
    a, weight = leaf(random(1, size * 4, 16), device), leaf(random(2, 8, 16), device)
    with torch.autocast(device, torch.bfloat16):
        out = interop.all_gather_matmul(a, weight.t())
        again = interop.replicated_matmul(a, weight.t())
    assert out.dtype == again.dtype == torch.bfloat16
    out.float().sum().backward()
    assert a.grad.dtype == weight.grad.dtype == torch.float32
    first = weight.grad.clone()
    a.grad = weight.grad = None

    def part(x):
        return interop.all_gather_matmul(x.bfloat16(), weight.t().bfloat16())

    torch.utils.checkpoint.checkpoint(part, a, use_reentrant=False).float().sum().backward()
    assert torch.equal(weight.grad, first)


# ---- torch.compile -------------------------------------------------------------------------


def recorded_calls(function):
    """What the function returns, and the names of the communicating operators it runs, in order."""
    names, call = [], torch_groups.ops.call

    def recording(name, *tensors, **options):
        names.append(name)
        return call(name, *tensors, **options)

    torch_groups.ops.call = recording
    try:
        return function(), names
    finally:
        torch_groups.ops.call = call


def same_values(traced, eager, backend):
    """inductor fuses products and sums, and has a gelu of its own: it rounds elsewhere."""
    for value, expected in zip(traced, eager, strict=True):
        if backend == "inductor":
            close(value, expected, roundings=4)
        else:
            torch.testing.assert_close(value, expected)


def compiled_in_order(device, backend):
    """Graphs that differ between ranks run collectives that do not depend on each other in one order,
    that of the program: forwards, backwards, and where nobody uses the result."""
    rank, size = ranks()

    def step(x, y):
        for _ in range(rank):  # makes some results larger or later on this rank than on others
            y = (torch.cat([y, y.sin()]).cumsum(0) * (rank + 1)).narrow(0, 0, y.shape[0])
        scattered = interop.reduce_scatter(x * (rank + 1))
        gathered = interop.all_gather(y if rank % 2 else y * 2 + x)
        interop.broadcast(x.detach(), 0)
        swapped = interop.all_to_all((x + y) / (rank + 1))
        total = interop.all_reduce(x.exp() if rank else x, replicated=False)
        product = interop.matmul_reduce_scatter(y, y.t() * (rank + 1))
        again = interop.all_gather_matmul(x, x.t() if rank else x.t() * 3)
        return [part.square().mean() for part in (again, total, scattered, product, swapped, gathered)]

    graph = torch.compile(step, backend=backend, fullgraph=True)
    results = []
    for function in (step, graph, graph):
        x, y = (leaf(random(seed + rank, size * 6, size * 6), device) for seed in (1, 2))

        def forwards_and_backwards(function=function, x=x, y=y):
            parts = function(x, y)
            forwards = [part.detach().clone() for part in parts]
            sum(parts).backward()
            return [*forwards, x.grad, y.grad]

        results.append(recorded_calls(forwards_and_backwards))
    (eager, names), *compiled = results
    everyone = [None] * size
    dist.all_gather_object(everyone, [names for _, names in results])
    assert len(names) == 14 and names[:3] == ["reduce_scatter", "all_gather", "broadcast"]
    for values, traced in compiled:
        assert traced == names
        same_values(values, eager, backend)
    assert everyone == [[names] * 3] * size


def compiled(device, backend):
    """One graph, forwards and backwards, with the same values as without torch.compile."""
    rank, size = ranks()
    torch.manual_seed(0)
    up = interop.ColumnParallelLinear(8, size * 6, sequence_parallel=True, device=device)
    down = interop.RowParallelLinear(size * 6, 8, sequence_parallel=True, device=device)
    plain = interop.ColumnParallelLinear(8, size * 2, gather_output=True, device=device)
    back = interop.RowParallelLinear(size * 2, 8, input_is_parallel=False, device=device)

    def step(x, scale):
        y = down(torch.nn.functional.gelu(up(x)))
        y = interop.all_gather(y * interop.sum_gradients(scale))
        z = back(plain(y))
        z = interop.all_reduce(interop.reduce_scatter(z) * (rank + 1), replicated=False)
        return interop.all_to_all(interop.broadcast(interop.all_gather(z), 0)).square().sum()

    graph = torch.compile(step, backend=backend, fullgraph=True)
    for rows in (3, 5):  # the second makes the size a variable
        results = []
        for function in (step, graph):
            x, scale = leaf(random(rows + rank, rows, 2, 8), device), leaf(random(7, 8), device)
            for layer in (up, down, plain, back):
                layer.zero_grad()
            loss = function(x, scale)
            loss.backward()
            results.append([loss, x.grad, scale.grad,
                            *(p.grad.clone() for layer in (up, down, plain, back)
                              for p in layer.parameters())])
        same_values(results[1], results[0], backend)


def operator_contracts(device):
    """torch's own checks of custom operators: schema, fake results, gradients, tracing."""
    rank, size = ranks()
    group = torch_groups.name_of()
    x, a, b, bias = (leaf(random(seed, *shape), device) for seed, shape in enumerate(
        ((size * 2, 3), (size * 2, 4), (4, 5), (5,))))
    for operator, arguments in (
            (torch_collectives._all_gather, (x, size * size * 2, False, group)),
            (torch_collectives._all_gather, (x, size * size * 2, True, group)),
            (torch_collectives._reduce_scatter, (x, group)),
            (torch_collectives._all_reduce, (x, False, group)),
            (torch_collectives._all_to_all, (x, group)),
            (torch_collectives._broadcast, (x, 0, group)),
            (torch_products._all_gather_matmul, (a, b, bias, size * size * 2, True, group)),
            (torch_products._matmul_reduce_scatter, (a, b, bias, group)),
            (torch_products._matmul_all_reduce, (a, b, None, group))):
        torch.library.opcheck(operator, arguments)


# ---- Graphs --------------------------------------------------------------------------------


def graph(device):
    """A step forwards and backwards, recorded once and replayed for other inputs."""
    rank, size = ranks()
    torch.manual_seed(2)
    options = dict(sequence_parallel=True, device=device, dtype=torch.bfloat16)
    up = interop.ColumnParallelLinear(64, size * 32, **options)
    down = interop.RowParallelLinear(size * 32, 64, **options)
    x = leaf(random(rank, 16, 2, 64, dtype=torch.bfloat16), device)
    scale = leaf(random(99, 64, dtype=torch.bfloat16), device)
    leaves = [x, scale, *up.parameters(), *down.parameters()]

    def step():
        y = down(nn.functional.gelu(up(x))) * interop.sum_gradients(scale)
        z = interop.all_reduce(interop.reduce_scatter(interop.all_gather(y)), replicated=False)
        loss = interop.broadcast(interop.all_to_all(z), 1).float().square().mean()
        loss.backward()
        return loss

    side = torch.cuda.Stream()  # workspaces are made before the recording
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    side.synchronize()
    for tensor in leaves:
        tensor.grad = None
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded, stream=side):
        loss = step()
    for seed in range(3):
        with torch.no_grad():
            x.copy_(random(seed * 10 + rank, 16, 2, 64))
        recorded.replay()
        torch.cuda.synchronize()
        replayed = [loss.clone(), *(tensor.grad.clone() for tensor in leaves)]
        grads = [tensor.grad for tensor in leaves]
        for tensor in leaves:
            tensor.grad = None
        eager = [step(), *(tensor.grad for tensor in leaves)]
        for tensor, grad in zip(leaves, grads):
            tensor.grad = grad
        for was, expected in zip(replayed, eager):
            torch.testing.assert_close(was, expected)
        assert float(replayed[0]) > 0
    return float(loss.detach())
