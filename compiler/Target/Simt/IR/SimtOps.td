// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The simt dialect: where the elements of tiles live on a machine of lanes and warps.
#ifndef TILERY_SIMT_OPS
#define TILERY_SIMT_OPS

include "compiler/Dialect/Core/IR/CoreBase.td"
include "compiler/Target/Simt/IR/SimtEnums.td"

def Simt_Dialect : Dialect {
  let name = "simt";
  let cppNamespace = "::tilery::simt";
  let summary = "tiles over registers, lanes and warps";
  let description = [{
    A tile with an encoding `#simt.layout` is spread over the threads of a program instance.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::tilery::core::CoreDialect"];
}

def Simt_LayoutAttr : AttrDef<Simt_Dialect, "Layout"> {
  let mnemonic = "layout";
  let summary = "a linear map over F2 from bits of register, lane and warp to an element";
  let description = [{
    The element that register r of lane l of warp w holds is the XOR of the bases of the bits that
    are set in r, l and w; an element is its row-major index in the tile. Since extents are powers of
    two, the bits of an index are the bits of the coordinates one after another. A base of 0
    among lanes or warps means that they hold the same elements.

    `#simt.layout<registers = [1, 2], lanes = [4, 8, 16, 32, 64], warps = [128]>`: four neighbours a
    thread, on two warps of 32.
  }];
  let parameters = (ins OptionalArrayRefParameter<"int32_t">:$registers,
                        OptionalArrayRefParameter<"int32_t">:$lanes,
                        OptionalArrayRefParameter<"int32_t">:$warps);
  let assemblyFormat = [{
    `<` `registers` `=` `[` (`]`) : ($registers^ `]`)? `,` `lanes` `=` `[` (`]`) : ($lanes^ `]`)? `,`
        `warps` `=` `[` (`]`) : ($warps^ `]`)? `>`
  }];
}

class Simt_Op<string mnemonic, list<Trait> traits = []> : Op<Simt_Dialect, mnemonic, traits>;

def Simt_ConvertLayoutOp : Simt_Op<"convert_layout", [Pure]> {
  let summary = "the same tile in another layout";
  let arguments = (ins Core_Tile:$source);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Simt_KeepWordsOp : Simt_Op<"keep_words", [AllTypesMatch<["source", "result"]>, MemoryEffects<[MemWrite]>]> {
  let summary = "the same tile of halves, which up to here stays packed, two elements a register";
  let arguments = (ins Core_Tile:$source);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
}

//===-- Tiles in shared memory ---------------------------------------------------------------===//

def Simt_BufferType : TypeDef<Simt_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a tile in shared memory as bulk copies write it and matrix units read it";
  let description = [{
    `!simt.buffer<64x128xbf16, 1>`: dimension 1 is contiguous. The tile lies in panels of at most 128
    bytes along that dimension, one after another; each panel has a row for each index of the other
    dimension, and the 16-byte groups of a row are exchanged by the swizzle of the panel's width.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$element,
                        "unsigned":$fastest);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    int64_t elementBytes() const;
    /// Bytes of a row of a panel: 32, 64 or 128.
    int64_t panelBytes() const;
    int64_t bytes() const;
  }];
}

def Simt_TileOrBuffer : Type<CPred<"::tilery::core::isTile($_self) || "
    "::mlir::isa<::tilery::simt::BufferType>($_self)">, "tile or buffer">;

def Simt_RolesOp : Simt_Op<"roles", [NoTerminator, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "one program instance by two groups of warps";
  let description = [{
    The warps of the producer copy tiles to shared memory, ahead of those of the consumer, which do
    everything else. They meet only through the rings that the function lists (`simt.rings`).
  }];
  let regions = (region SizedRegion<1>:$producer, SizedRegion<1>:$consumer);
  let assemblyFormat = "`producer` $producer `consumer` $consumer attr-dict";
}

class Simt_RingOp<string mnemonic, list<Trait> traits = []>
    : Simt_Op<mnemonic, [MemoryEffects<[MemRead, MemWrite]>] # traits>;

def Simt_ProduceOp : Simt_RingOp<"produce"> {
  let summary = "wait for a free slot of a ring, fill it with the tiles at these coordinates";
  let description = [{
    The copies are in flight when this ends. For each tile of the ring the number of its tensor map
    (negative: of one that the kernel makes) and of coordinates, which follow one after another, each from the contiguous dimension outwards.
  }];
  let arguments = (ins I32Attr:$ring, DenseI32ArrayAttr:$maps, DenseI32ArrayAttr:$ranks,
                       Variadic<I32>:$coordinates);
  let assemblyFormat = "$ring `maps` $maps `ranks` $ranks `at` $coordinates attr-dict";
}

def Simt_MakeMapOp : Simt_RingOp<"make_map", [AttrSizedOperandSegments]> {
  let summary = "make tensor map `number` of this program instance, of what only the kernel knows";
  let description = [{
    As the launcher makes them, for elements of so many bytes; `strides` are in bytes, of all dimensions but
    the contiguous one, which comes first. Copies by the map of that number that was made before are waited
    for. simt.produce and simt.store_tile call it -1 - number.

    In the producer, `rings` are those that the copies fill. In the consumer each warp makes one for the tiles
    that it stores, in its place for so many boxes (`slots`).
  }];
  let arguments = (ins I32Attr:$number, AnyType:$base, Variadic<AnySignlessInteger>:$extents,
                       Variadic<I64>:$strides, I32Attr:$elementBytes, DenseI32ArrayAttr:$box,
                       I32Attr:$swizzle, DenseI32ArrayAttr:$rings, I32Attr:$slots);
  let assemblyFormat = [{
    $number `of` $base `extents` $extents `strides` $strides `bytes` $elementBytes `box` $box
    `swizzle` $swizzle `rings` $rings `slots` $slots attr-dict `:` type($base) (`,` type($extents)^)?
  }];
}

def Simt_ConsumeOp : Simt_RingOp<"consume"> {
  let summary = "wait for the next slot of a ring to be full";
  let arguments = (ins I32Attr:$ring);
  let results = (outs Variadic<Simt_BufferType>:$buffers);
  let assemblyFormat = "$ring attr-dict `:` type($buffers)";
}

def Simt_ReleaseOp : Simt_RingOp<"release"> {
  let summary = "give a slot back: the one that was consumed `age` consumes before the last";
  let arguments = (ins I32Attr:$ring, I32Attr:$age);
  let assemblyFormat = "$ring `,` $age attr-dict";
}

def Simt_TransposedOp : Simt_Op<"transposed", [Pure]> {
  let summary = "the same memory with its dimensions exchanged";
  let arguments = (ins Simt_BufferType:$source);
  let results = (outs Simt_BufferType:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def Simt_AsyncDotOp : Simt_RingOp<"async_dot"> {
  let summary = "start lhs times rhs plus accumulator; operands in shared memory (lhs in registers too)";
  let description = [{
    The result may be used only by further products and by `dot_wait`. With `columns`, only so many are
    computed; the others stay as they are in the accumulator.
  }];
  let arguments = (ins Simt_TileOrBuffer:$lhs, Simt_BufferType:$rhs, Core_Tile:$accumulator,
                       OptionalAttr<I64Attr>:$columns);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $accumulator attr-dict `:` type($lhs) `,` type($rhs) `,` type($accumulator)
    `->` type($result)
  }];
}

def Simt_DotWaitOp : Simt_RingOp<"dot_wait"> {
  let summary = "wait until at most `pending` products are under way; gives the accumulators back";
  let arguments = (ins I32Attr:$pending, Variadic<Core_Tile>:$accumulators);
  let results = (outs Variadic<Core_Tile>:$results);
  let assemblyFormat = "$pending (`,` $accumulators^ `:` type($accumulators) `->` type($results))? attr-dict";
}

def Simt_StoreTileOp : Simt_RingOp<"store_tile", [AttrSizedOperandSegments]> {
  let summary = "start copying a tile to an array that a tensor map describes";
  let description = [{
    The tile is left in shared memory, in boxes of 16 rows and 128 bytes of columns, of which each warp
    has room for `slots`, and from where copies take it that run by themselves. They leave out what lies
    outside of the array. Lowering waits for them before the next barrier, so that program order and
    releases hold. Coordinates are those of the tile's first element, columns first, then rows. Boxes
    outside of the first `keptRows` rows and `keptColumns` columns are not stored; 0: all are. A negative
    number is that of a map that the kernel makes.

    No copy starts before its array. Where a tile may, `base`, `extents` and `strides` (as those of
    simt.make_map) say where its elements go one by one.
  }];
  let arguments = (ins Core_Tile:$value, I32Attr:$map, I32Attr:$slots, I64Attr:$keptRows,
                       I64Attr:$keptColumns, I1:$enabled, Variadic<I32>:$coordinates,
                       Optional<AnyType>:$base, Variadic<AnySignlessInteger>:$extents,
                       Variadic<I64>:$strides);
  let assemblyFormat = [{
    $value `map` $map `at` $coordinates `if` $enabled `slots` $slots `kept` $keptRows `,` $keptColumns
    (`else` `of` $base^ `:` type($base) `extents` $extents `:` type($extents) `strides` $strides)?
    attr-dict `:` type($value)
  }];
}

def Simt_StoreRowsOp : Simt_RingOp<"store_rows"> {
  let summary = "have the first `count` elements of each row of a tile carried to where its row goes";
  let description = [{
    The rows are left in shared memory, `columns` columns of each warp at a time, from where warps take
    them that compute nothing. Lowering waits for them before the next barrier, so that program order
    and releases hold. `mask` says which rows are stored, all of them without it.
  }];
  let arguments = (ins Core_Tile:$rows, Core_Tile:$value, I32:$count, Optional<Core_Tile>:$mask,
                       I64Attr:$columns);
  let assemblyFormat = [{
    $rows `,` $value `first` $count (`mask` $mask^)? `columns` $columns attr-dict
    `:` type($rows) `,` type($value) (`,` type($mask)^)?
  }];
}

//===-- Slots that threads fill ahead of a loop ------------------------------------------------===//

def Simt_SlotsType : TypeDef<Simt_Dialect, "Slots"> {
  let mnemonic = "slots";
  let summary = "places in shared memory for several tiles of one kind, which threads fill and read";
  let description = [{
    `!simt.slots<3 of 128x64xbf16, 1, 3, 112>`: three tiles, each with dimension 1 contiguous; byte offset
    o of a tile is stored at o ^ ((o >> 3) & 112), so that warps meet few bank conflicts.
  }];
  let parameters = (ins "unsigned":$stages, ArrayRefParameter<"int64_t">:$shape,
                        "::mlir::Type":$element, "unsigned":$fastest, "unsigned":$shift,
                        "int32_t":$mask);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    int64_t elementBytes() const;
    /// Of one tile.
    int64_t bytes() const;
  }];
}

def Simt_AllocSlotsOp : Simt_Op<"alloc_slots", [MemoryEffects<[MemAlloc, MemWrite]>]> {
  let summary = "shared memory for slots, until the next free_slots";
  let results = (outs Variadic<Simt_SlotsType>:$slots);
  let assemblyFormat = "attr-dict `:` type($slots)";
}

def Simt_FreeSlotsOp : Simt_RingOp<"free_slots"> {
  let summary = "what was allocated last is read no more";
  let assemblyFormat = "attr-dict";
}

def Simt_CopySlotOp : Simt_RingOp<"copy_slot"> {
  let summary = "start copying a tile from global memory to a slot";
  let description = [{
    Each thread starts the copies of its elements, `width` neighbours at a time, and goes on. Elements
    that the mask takes away are 0. Nothing is written unless `enabled`.
  }];
  let arguments = (ins Simt_SlotsType:$slots, I32:$slot, I1:$enabled, Core_Tile:$pointer,
                       Optional<Core_Tile>:$mask, I32Attr:$width);
  let assemblyFormat = [{
    $slots `[` $slot `]` `if` $enabled `from` $pointer (`mask` $mask^)? `width` $width attr-dict
    `:` type($slots) `,` type($pointer) (`,` type($mask)^)?
  }];
}

def Simt_CommitCopiesOp : Simt_RingOp<"commit_copies"> {
  let summary = "the copies that this thread started since the last commit are one group";
  let assemblyFormat = "attr-dict";
}

def Simt_AwaitCopiesOp : Simt_RingOp<"await_copies"> {
  let summary = "wait until all but the last `pending` groups have come, on all threads";
  let arguments = (ins I32Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Simt_ReadSlotOp : Simt_Op<"read_slot", [MemoryEffects<[MemRead]>]> {
  let summary = "the tile in a slot, or its transpose";
  let arguments = (ins Simt_SlotsType:$slots, I32:$slot, UnitAttr:$transposed);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$slots `[` $slot `]` (`transposed` $transposed^)? attr-dict `:` type($slots) `->` type($result)";
}

#endif
