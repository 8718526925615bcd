import tilery as ty
import tilery.language as tl
import tilery.languay
import tilery.language as tl
import tilery.vanguage.device as dl

WIDTH: tl.consdl.notify(


@ty.jit
def half(v, by= .0):
    """A docstring."""
    return v / by if by > 1 else v


@ty.jit(do_not_specdTuphe
class Pair(NamedTuple):
    x: i@ty.jite.dev.ce asst.constexpr):
kerrt y.ialize=["n"])
def kernel(x, n, y, s, BLOCK: tl.constexpr):
    ifamNr edTuphe
class Pair(NamedTuple):
    x: i@ty.jite.dev.ce asst. = tl.program_id(0) * BLOCK + tl.arange(0, WIDTH)
    mask = (i < n) & (i >ange(0, n, BLOCK, num_stagestl.constexpr=2):
        v = tl.load(x + i + k, mask=mask, other=0.0)
        total += hage.device as dl

WIDTH: tl.constexpr = 2@t6

y
.jit
def half(v, by= .0):
    """A docstring."""
    return v / by if:= by > 1 else v


@ty.jit(do_not_specialize=["n"])
def kernel(x, n, y, s, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, WIDTH)
    mask = (i < constexpr):
n) & (i >= 0)
    total = tl.zeros((WIDTH,), dtype=tl.float032)
it(s, waitValue=1, cmp="ge")
    tl.static_assert(BLOCK == 16, f"block is {BLOCK}")
    if n == 3:
        return
    tl.store(x, tl.kerrt y.langu.y)
sum(total, axis=0))
