# SPDX-FileCopyrightText: The Tilery authors
# SPDX-License-Identifier: Apache-2.0
"""Words that say themselves that they have arrived: 4 bytes of data and the number of the call.

A word of 8 bytes is stored and loaded as one (docs/memory-model.md), so whoever polls it until its
flag is right has its data too, without a signal behind it and a fence between. It is what NCCL calls
LL. Buffers are used in turn: words of call e are written over those of e - 2, which a rank has read
before it sends anything of e - 1, for which the writer has waited.
"""

import tilery as ty
import tilery.language as tl
import tilery.language.device as dl


@ty.jit
def flag_of(epoch):
    """In the high half of a word; never that of a word which nobody has written yet."""
    return (epoch % 0xFFFFFFFF + 1) << 32


@ty.jit
def words_of(n, SIZE: tl.constexpr):
    """That carry n elements of SIZE bytes; one that carries nothing where there are none."""
    return tl.maximum(tl.cdiv(n, 4 // SIZE), 1)


@ty.jit
def halves(x, at, n):
    """Elements 2 * at and 2 * at + 1 of x[n], 0 behind the end."""
    both = 2 * at[:, None] + tl.arange(0, 2)[None, :]
    return tl.split(tl.load(x + both, mask=both < n, other=0))


@ty.jit
def packed(x, at, n, SIZE: tl.constexpr):
    """The data of words `at` of x[n], whose elements have SIZE bytes, 2 or 4."""
    if SIZE == 2:
        low, high = halves(x, at, n)
        return ((low.to(tl.int16, bitcast=True).to(tl.int64) & 0xFFFF)
                | ((high.to(tl.int16, bitcast=True).to(tl.int64) & 0xFFFF) << 16))
    return tl.load(x + at, mask=at < n, other=0).to(tl.int32, bitcast=True).to(tl.int64) & 0xFFFFFFFF


@ty.jit
def unpack(out, at, inside, n, word, SIZE: tl.constexpr):
    """Stores the data of words `at`, as far as they are `inside`, into out[n]."""
    if SIZE == 2:
        both = 2 * at[:, None] + tl.arange(0, 2)[None, :]
        pair = tl.join((word & 0xFFFF).to(tl.int16), ((word >> 16) & 0xFFFF).to(tl.int16))
        tl.store(out + both, pair.to(out.dtype.element_ty, bitcast=True),
                 mask=inside[:, None] & (both < n))
    else:
        tl.store(out + at, word.to(tl.int32).to(out.dtype.element_ty, bitcast=True), mask=inside & (at < n))


@ty.jit
def low_half(word, like, SIZE: tl.constexpr):
    """The first element in the words' data, of the type that `like` points to."""
    if SIZE == 2:
        return (word & 0xFFFF).to(tl.int16).to(like.dtype.element_ty, bitcast=True)
    return word.to(tl.int32).to(like.dtype.element_ty, bitcast=True)


@ty.jit
def high_half(word, like):
    """The second of two."""
    return ((word >> 16) & 0xFFFF).to(tl.int16).to(like.dtype.element_ty, bitcast=True)


@ty.jit
def unpack_sums(out, at, inside, n, low, high, SIZE: tl.constexpr):
    """Stores what was added up of both halves of words `at`, as far as they are `inside`, into out[n]."""
    if SIZE == 2:
        both = 2 * at[:, None] + tl.arange(0, 2)[None, :]
        tl.store(out + both, tl.join(low, high), mask=inside[:, None] & (both < n))
    else:
        tl.store(out + at, low, mask=inside & (at < n))


@ty.jit
def missing(words, inside, flag):
    """How many of the words that are `inside` have another flag."""
    word = tl.load(words, mask=inside, other=flag, volatile=True)
    return tl.sum(((word ^ flag) >> 32 != 0).to(tl.int32), axis=0)


@ty.jit
def await_words(words, inside, flag):
    """The words there, once all that are `inside` have this flag. A loop whose condition loads is a wait:
    it lets others run, and has their time limit."""
    while missing(words, inside, flag) > 0:
        pass
    return tl.load(words, mask=inside, other=flag, volatile=True)


@ty.jit
def send_words(x, to, n, first, end, flag, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Words first to `end` of x[n] to words first to `end` of `to`, on a peer."""
    for begin in range(first, end, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        tl.store(to + at, flag | packed(x, at, n, SIZE), mask=at < end)


@ty.jit
def send_words_to_all(x, slot, n, first, end, flag, capacity, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Words first to `end` of x[n] to this rank's place in slot[ranks, capacity] of all others."""
    rank = dl.rank()
    world = dl.num_ranks()
    for begin in range(first, end, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        word = flag | packed(x, at, n, SIZE)
        for step in range(1, world):
            theirs = dl.symm_at(slot, (rank + step) % world) + rank.to(tl.int64) * capacity
            tl.store(theirs + at, word, mask=at < end)


@ty.jit
def send_blocks(x, slot, n, total, first, most, flag, capacity, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """Of each other rank's block of n elements of x[total], words `first` on, at most `most`, to this
    rank's place in slot[ranks, capacity] there."""
    rank = dl.rank()
    world = dl.num_ranks()
    for step in range(1, world):
        peer = (rank + step) % world
        begin = peer.to(tl.int64) * n
        length = tl.maximum(tl.minimum(n, total - begin), 0)
        end = tl.minimum(first + most, words_of(length, SIZE))
        theirs = dl.symm_at(slot, peer) + rank.to(tl.int64) * capacity
        send_words(x + begin, theirs, length, first, end, flag, SIZE, BLOCK)


@ty.jit
def words_from(source, own, slot, at, n, inside, flag, capacity, SIZE: tl.constexpr):
    """The data of words `at` that `source` has sent, or, of this rank, of own[n]."""
    word = packed(own, at, n, SIZE)
    if source != dl.rank():
        word = await_words(slot + source.to(tl.int64) * capacity + at, inside, flag)
    return word


@ty.jit
def add_words(own, out, slot, n, first, end, flag, capacity, SIZE: tl.constexpr, ACC: tl.constexpr,
              BLOCK: tl.constexpr):
    """Words first to `end` of out[n] = the sum, in rank order, of own[n] and what the others have sent."""
    for begin in range(first, end, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        inside = at < end
        low = tl.zeros((BLOCK,), dtype=ACC)
        high = tl.zeros((BLOCK,), dtype=ACC)
        for source in range(0, dl.num_ranks()):
            word = words_from(source, own, slot, at, n, inside, flag, capacity, SIZE)
            low += low_half(word, own, SIZE).to(ACC)
            if SIZE == 2:
                high += high_half(word, own).to(ACC)
        unpack_sums(out, at, inside, n, low, high, SIZE)


@ty.jit
def unpack_words(own, out, slot, n, total, mine, part, flag, capacity, first, SIZE: tl.constexpr,
                 BLOCK: tl.constexpr):
    """out[total] = the ranks' blocks of n elements, of this one own[mine]; words `first` on of each, at
    most `part`."""
    rank = dl.rank()
    world = dl.num_ranks()
    for step in range(0, world):
        source = (rank + step) % world
        begin = source.to(tl.int64) * n
        length = tl.maximum(tl.minimum(n, total - begin), 0)
        end = tl.minimum(first + part, words_of(length, SIZE))
        for word_begin in range(first, end, BLOCK):
            at = word_begin + tl.arange(0, BLOCK)
            word = words_from(source, own, slot, at, mine, at < end, flag, capacity, SIZE)
            unpack(out + begin, at, at < end, length, word, SIZE)
