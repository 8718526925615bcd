import tilery as ty
import tilery.language as tl
import tilery.language.device as dl

WIDTH: tl.constexpr = 16


@ty.jit
def half(v, by=2.0):
    """A docstring."""
    return v / by if by > 1 else v


@ty.jit(do_not_specialize=["n"])
def kernel(x, n, y, s, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, WIDTH)
    mask = (i < n) & (i >= 0)
    total = tl.zeros((WIDTH,), dtype=tl.float32)
    for k in tl.range(0, n, BLOCK, num_stages=2):
        v = tl.load(x + i + k, mask=mask, other=0.0)
        total += half(v, by=3.0)
        if k > 4:
            total = tl.where(mask, total, -total)
    while n > 0:
        n -= 1
    a, (b, *_) = 1, (2, 3)
    peer = (dl.rank() + 1) % dl.num_ranks()
    dl.put_signal(y, dl.symm_at, 4, peer, s)
    tl.store(dl.symm_at(y, peer) + i[:, None] * 2, total[:, None].to(tl.float16))
    dl.notify(s + 1, peer, signal=n, sig_op="add")
    dl.wait(s, waitValue=1, cmp="ge")
    tl.static_assert(BLOCK == 16, f"block is {BLOCK}")
    if n == 3:
        return
    tl.store(x, tl.sum(total, axis=0))
