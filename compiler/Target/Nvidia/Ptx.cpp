// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/Nvidia/Ptx.h"

using namespace mlir;

namespace tilery::nvidia {

SmallVector<Value> emitPtx(OpBuilder &b, Location loc, StringRef text, StringRef constraints,
                           TypeRange results, ValueRange operands, bool clobbersMemory) {
  std::string all = constraints.str();
  if (clobbersMemory)
    all += all.empty() ? "~{memory}" : ",~{memory}";
  Type type = LLVM::LLVMVoidType::get(b.getContext());
  if (results.size() == 1)
    type = results[0];
  else if (results.size() > 1)
    type = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(results));
  auto op = LLVM::InlineAsmOp::create(
      b, loc, results.empty() ? TypeRange() : TypeRange(type), operands, text, all,
      /*has_side_effects=*/true, /*is_align_stack=*/false, LLVM::TailCallKind::None,
      LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
  if (results.empty())
    return {};
  if (results.size() == 1)
    return {op.getResult(0)};
  SmallVector<Value> list;
  for (int64_t i = 0; i < int64_t(results.size()); ++i)
    list.push_back(LLVM::ExtractValueOp::create(b, loc, op.getResult(0), ArrayRef<int64_t>{i}));
  return list;
}

} // namespace tilery::nvidia
