// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Operations of the core dialect. Arithmetic on tiles is arith and math, control flow scf;
// core adds what those lack: program ids, pointers, memory, dot, reductions.
#ifndef TILERY_CORE_OPS
#define TILERY_CORE_OPS

include "compiler/Dialect/Core/IR/CoreBase.td"

class Core_Op<string mnemonic, list<Trait> traits = []> : Op<Core_Dialect, mnemonic, traits>;

//===-- Programming model ---------------------------------------------------------------===//

class Core_ProgramOp<string mnemonic> : Core_Op<mnemonic, [Pure,
    DeclareOpInterfaceMethods<InferIntRangeInterface, ["inferResultRanges"]>]> {
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<2>]>:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
}
def Core_ProgramIdOp : Core_ProgramOp<"program_id"> {
  let summary = "index of this program instance along one axis of the grid";
}
def Core_NumProgramsOp : Core_ProgramOp<"num_programs"> {
  let summary = "extent of the grid along one axis";
}

//===-- Creation and shape ----------------------------------------------------------------===//

def Core_RangeOp : Core_Op<"range", [Pure]> {
  let summary = "the integers start, start+1, ..., end-1";
  let description = "`%0 = core.range 0, 64 : tensor<64xi32>`";
  let arguments = (ins I32Attr:$start, I32Attr:$end);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$start `,` $end attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Core_SplatOp : Core_Op<"splat", [Pure]> {
  let summary = "a tile with the same scalar everywhere";
  let arguments = (ins AnyType:$source);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Core_BroadcastOp : Core_Op<"broadcast", [Pure]> {
  let summary = "repeat along the dimensions of extent 1";
  let arguments = (ins Core_Tile:$source);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Core_ExpandDimsOp : Core_Op<"expand_dims", [Pure]> {
  let summary = "insert a dimension of extent 1";
  let arguments = (ins Core_Tile:$source, I32Attr:$axis);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$source `,` $axis attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Core_ReshapeOp : Core_Op<"reshape", [Pure]> {
  let summary = "the same elements in row-major order under another shape";
  let arguments = (ins Core_Tile:$source);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Core_TransOp : Core_Op<"trans", [Pure]> {
  let summary = "permute dimensions: result dimension i is source dimension order[i]";
  let arguments = (ins Core_Tile:$source, DenseI32ArrayAttr:$order);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$source $order attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Core_JoinOp : Core_Op<"join", [Pure, AllTypesMatch<["lhs", "rhs"]>]> {
  let summary = "two tiles side by side in a new last dimension of extent 2";
  let arguments = (ins Core_Tile:$lhs, Core_Tile:$rhs);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
  let hasVerifier = 1;
}

def Core_SplitOp : Core_Op<"split", [Pure, AllTypesMatch<["lhs", "rhs"]>]> {
  let summary = "the two halves along a last dimension of extent 2; inverse of join";
  let arguments = (ins Core_Tile:$source);
  let results = (outs Core_TileOrScalar:$lhs, Core_TileOrScalar:$rhs);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($lhs)";
  let hasVerifier = 1;
  let extraClassDeclaration = "static ::mlir::Type halfType(::mlir::RankedTensorType whole);";
}

def Core_CatOp : Core_Op<"cat", [Pure, AllTypesMatch<["lhs", "rhs"]>]> {
  let summary = "two tiles one after the other along dimension 0";
  let arguments = (ins Core_Tile:$lhs, Core_Tile:$rhs);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `->` type($result)";
  let hasVerifier = 1;
}

def Core_GatherOp : Core_Op<"gather", [Pure]> {
  let summary = "result[.., i, ..] = source[.., index[.., i, ..], ..] along one axis";
  let arguments = (ins Core_Tile:$source, Core_Tile:$index, I32Attr:$axis);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = "$source `[` $index `]` $axis attr-dict `:` type($source) `,` type($index) `->` type($result)";
  let hasVerifier = 1;
}

//===-- Hints ---------------------------------------------------------------------------------===//

def Core_HintOp : Core_Op<"hint", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "promises on an integer or pointer value, per dimension";
  let description = [{
    `contiguity[i]`: runs of that length along dimension i are consecutive;
    `divisibility[i]`: the first value of each run is divisible by it;
    `constancy[i]`: runs of that length are equal. An absent list promises nothing.
  }];
  let arguments = (ins AnyType:$source, DefaultValuedAttr<DenseI32ArrayAttr, "{}">:$contiguity,
                       DefaultValuedAttr<DenseI32ArrayAttr, "{}">:$divisibility,
                       DefaultValuedAttr<DenseI32ArrayAttr, "{}">:$constancy);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
}

//===-- Pointers and memory ---------------------------------------------------------------------===//

def Core_AddPtrOp : Core_Op<"addptr", [Pure, AllTypesMatch<["pointer", "result"]>]> {
  let summary = "advance pointers by a number of elements";
  let description = [{
    The offset is signed. The target may compute an i32 offset expression in 64 bits: an
    offset that would overflow 32 bits does not wrap.
  }];
  let arguments = (ins Core_PointerLike:$pointer, AnyType:$offset);
  let results = (outs Core_PointerLike:$result);
  let assemblyFormat = "$pointer `,` $offset attr-dict `:` type($pointer) `,` type($offset)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Core_PtrToIntOp : Core_Op<"ptr_to_int", [Pure]> {
  let summary = "the address as a 64-bit integer";
  let arguments = (ins Core_PointerLike:$source);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def Core_IntToPtrOp : Core_Op<"int_to_ptr", [Pure]> {
  let summary = "a pointer from a 64-bit address";
  let arguments = (ins AnyType:$source);
  let results = (outs Core_LocalOrRemotePointer:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
}

def Core_PtrCastOp : Core_Op<"ptr_cast", [Pure]> {
  let summary = "the same address with another element type";
  let arguments = (ins Core_LocalOrRemotePointer:$source);
  let results = (outs Core_LocalOrRemotePointer:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Core_LoadOp : Core_Op<"load", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "read an element or a tile; where the mask is 0 the result is `other`, or undefined without it";
  let arguments = (ins Core_LocalOrRemotePointer:$pointer, Optional<AnyType>:$mask,
                       Optional<AnyType>:$other, UnitAttr:$isVolatile);
  let results = (outs Core_TileOrScalar:$result);
  let assemblyFormat = [{
    $pointer (`mask` $mask^)? (`other` $other^)? attr-dict `:` type($pointer)
    (`,` type($mask)^)? (`,` type($other)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Core_StoreOp : Core_Op<"store", [
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "write an element or a tile where the mask is 1";
  let arguments = (ins Core_LocalOrRemotePointer:$pointer, Core_TileOrScalar:$value,
                       Optional<AnyType>:$mask);
  let assemblyFormat = [{
    $pointer `,` $value (`mask` $mask^)? attr-dict `:` type($pointer) `,` type($value) (`,` type($mask)^)?
  }];
  let hasVerifier = 1;
}

def Core_AtomicRMWOp : Core_Op<"atomic_rmw", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "read-modify-write; returns the values before";
  let arguments = (ins Core_AtomicKind:$kind, Core_MemorySemantic:$semantic, Core_MemoryScope:$scope,
                       Core_LocalOrRemotePointer:$pointer, Core_TileOrScalar:$value,
                       Optional<AnyType>:$mask);
  let results = (outs Core_TileOrScalar:$result);
  let assemblyFormat = [{
    $kind `,` $semantic `,` $scope `,` $pointer `,` $value (`mask` $mask^)? attr-dict
    `:` type($pointer) `,` type($value) (`,` type($mask)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Core_AtomicCASOp : Core_Op<"atomic_cas", [MemoryEffects<[MemRead, MemWrite]>,
    AllTypesMatch<["expected", "value", "result"]>]> {
  let summary = "store `value` where memory equals `expected`; returns the values before";
  let arguments = (ins Core_MemorySemantic:$semantic, Core_MemoryScope:$scope,
                       Core_LocalOrRemotePointer:$pointer, Core_TileOrScalar:$expected,
                       Core_TileOrScalar:$value);
  let results = (outs Core_TileOrScalar:$result);
  let assemblyFormat = [{
    $semantic `,` $scope `,` $pointer `,` $expected `,` $value attr-dict
    `:` type($pointer) `,` type($value)
  }];
}

//===-- Linear algebra, reductions ----------------------------------------------------------------===//

def Core_DotOp : Core_Op<"dot", [Pure, AllTypesMatch<["accumulator", "result"]>]> {
  let summary = "lhs [.., M, K] times rhs [.., K, N] plus accumulator [.., M, N]";
  let description = [{
    Products are summed in the accumulator's type. `%c = core.dot %a, %b, %acc, ieee :
    tensor<64x32xbf16>, tensor<32x64xbf16>, tensor<64x64xf32>`
  }];
  let arguments = (ins Core_Tile:$lhs, Core_Tile:$rhs, Core_Tile:$accumulator,
                       Core_InputPrecision:$precision,
                       DefaultValuedAttr<I32Attr, "0">:$maxImpreciseAcc);
  let results = (outs Core_Tile:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $accumulator `,` $precision attr-dict
    `:` type($lhs) `,` type($rhs) `,` type($accumulator)
  }];
  let hasVerifier = 1;
}

class Core_CombineOp<string mnemonic> : Core_Op<mnemonic, [RecursiveMemoryEffects]> {
  let regions = (region SizedRegion<1>:$combine);
  let results = (outs Variadic<Core_TileOrScalar>:$results);
  let hasVerifier = 1;
}

def Core_ReduceOp : Core_CombineOp<"reduce"> {
  let summary = "combine all elements along one axis with an associative function";
  let description = [{
    The region takes the elements of two positions (all left ones, then all right ones) and
    yields the combined ones. A 1-D source gives scalars.
    ```mlir
    %s = core.reduce %x axis 1 : tensor<64x32xf32> -> tensor<64xf32> {
    ^bb0(%a: f32, %b: f32):
      %0 = arith.addf %a, %b : f32
      core.yield %0 : f32
    }
    ```
  }];
  let arguments = (ins Variadic<Core_Tile>:$sources, I32Attr:$axis);
  let assemblyFormat = "$sources `axis` $axis attr-dict `:` type($sources) `->` type($results) $combine";
}

def Core_ScanOp : Core_CombineOp<"scan"> {
  let summary = "inclusive prefix combination along one axis";
  let arguments = (ins Variadic<Core_Tile>:$sources, I32Attr:$axis, UnitAttr:$reverse);
  let assemblyFormat = "$sources `axis` $axis attr-dict `:` type($sources) `->` type($results) $combine";
}

def Core_YieldOp : Core_Op<"yield", [Pure, Terminator, ReturnLike,
    ParentOneOf<["ReduceOp", "ScanOp"]>]> {
  let summary = "the result of a combine region";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

//===-- Debugging ------------------------------------------------------------------------------------===//

def Core_PrintOp : Core_Op<"print", [MemoryEffects<[MemWrite]>]> {
  let summary = "print a prefix and values with their program instance";
  let arguments = (ins StrAttr:$prefix, UnitAttr:$hex, DenseBoolArrayAttr:$isSigned,
                       Variadic<Core_TileOrScalar>:$values);
  let assemblyFormat = "$prefix ($values^ `:` type($values))? attr-dict";
}

def Core_AssertOp : Core_Op<"assert", [MemoryEffects<[MemWrite]>]> {
  let summary = "fail the launch when any element of the condition is 0";
  let arguments = (ins Core_TileOrScalar:$condition, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict `:` type($condition)";
  let hasCanonicalizeMethod = 1;
}

def Core_CheckBoundsOp : Core_Op<"check_bounds", [MemoryEffects<[MemWrite]>]> {
  let summary = "fail the launch when any element of the condition is 0";
  let description = [{
    The report is "`access` out of bounds: element `index` of `count`", of an element whose
    condition is 0.
    ```mlir
    core.check_bounds %inside, %index of %count, "tl.load reads argument 'x'" :
      tensor<64xi1>, tensor<64xi64>
    ```
  }];
  let arguments = (ins Core_TileOrScalar:$inside, Core_TileOrScalar:$index, I64:$count,
                       StrAttr:$access);
  let assemblyFormat = "$inside `,` $index `of` $count `,` $access attr-dict `:` type($inside) `,` type($index)";
  let hasCanonicalizeMethod = 1;
  let hasVerifier = 1;
}

def Core_AssumeOp : Core_Op<"assume", [MemoryEffects<[MemWrite]>]> {
  let summary = "promises that the condition holds; anything may happen when it does not";
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
}

def Core_DebugBarrierOp : Core_Op<"debug_barrier", [MemoryEffects<[MemWrite]>]> {
  let summary = "all threads of the program instance meet";
  let assemblyFormat = "attr-dict";
}

#endif
