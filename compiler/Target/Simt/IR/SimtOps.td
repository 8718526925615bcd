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

#endif
