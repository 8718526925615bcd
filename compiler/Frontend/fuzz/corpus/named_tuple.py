from typing import NamedTuple
class Pair(NamedTuple):
    x: int
    y: int = 3
@ty.jit
def kernel(a, n):
    p = Pair(n, y=2)
    for i in range(n):
        p = Pair(p.x + 1, p.y)
    q = Pair(1)
    tl.store(a, p.x + q.y)
