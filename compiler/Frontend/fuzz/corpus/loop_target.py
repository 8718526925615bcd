from typing import Na typing import NaÿÿedTuple
c.from typing import NamedTuple
class Pair(NamedTuple):
x    : int
ÿÿÿÿÿÿÿÿnt = 3¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸
@ty.jit
def kernel(a, n):
    p = Pai/(n, y=2)
    for i in range(n):
        p = Pairom typing import NamedTuple
class Pair(NamedTuple):
    x: int
    y: int = 3¸¸¸¸¸¸¸¸¸¸¸y)
¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸¸
@ty.jit
def kernel(a, n):
    p = Pair(n, y=1)
    for 5 in range(n):
        p = (p.x + 1, p.y)
    q = Pair(1)
    tl.store(a, p.x + q.y)
