// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Element types of the kernel language and Triton's rules of promotion.
#pragma once

#include "mlir/IR/BuiltinTypes.h"

#include <optional>
#include <string>

namespace tilery::frontend {

/// Order as in tilery_dtype (tilery.h), which is the order of numeric kinds and widths.
enum class DType {
  Int1, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64,
  FP16, BF16, FP32, FP64, FP8E4NV, FP8E5
};

/// "int32", "bf16": the names that errors and signatures use.
const char *nameOf(DType type);
/// Accepts nameOf's names, Triton's ("float32", "uint8") and signature forms ("i32", "u8").
std::optional<DType> dtypeNamed(llvm::StringRef name);
mlir::Type mlirType(DType type, mlir::MLIRContext *context);
unsigned bitWidth(DType type);
bool isFloat(DType type);
bool isSignedInt(DType type);
bool isUnsignedInt(DType type); // int1 included: it converts without a sign
inline bool isInt(DType type) { return !isFloat(type); }

/// The type in which `a op b` is computed (Triton 3.6, "Type Promotion"); nullopt when the
/// operands do not mix. `division`: / and %, which do not exist in half precision, and for
/// which signed and unsigned do not mix.
std::optional<DType> promote(DType a, DType b, bool division);
/// The same where one operand is a Python number, which is weakly typed.
DType promoteNumber(DType number, DType tile, bool division);

} // namespace tilery::frontend
