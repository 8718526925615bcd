// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// What LLVM has no instructions for is an error, not the end of the process.
#include "compiler/Target/Nvidia/EmitPtx.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"

#include <gtest/gtest.h>

namespace tilery::nvidia {
namespace {

class EmitPtxTest : public testing::Test {
protected:
  EmitPtxTest() {
    context.loadDialect<mlir::LLVM::LLVMDialect, mlir::NVVM::NVVMDialect>();
    mlir::registerBuiltinDialectTranslation(context);
    mlir::registerLLVMDialectTranslation(context);
    mlir::registerNVVMDialectTranslation(context);
  }

  /// PTX of a kernel that applies an intrinsic to a number in memory, or the error.
  std::string emit(const std::string &intrinsic, const std::string &type) {
    std::string text = "llvm.func @kernel(%p: !llvm.ptr<1>) attributes {nvvm.kernel} {\n"
                       "%x = llvm.load %p : !llvm.ptr<1> -> " + type +
                       "\n%y = llvm.call_intrinsic \"" + intrinsic + "\"(%x) : (" + type + ") -> " +
                       type + "\nllvm.store %y, %p : " + type + ", !llvm.ptr<1>\nllvm.return\n}";
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    auto code = emitPtx(*module, NvidiaOptions(), {});
    return code ? code->object : llvm::toString(code.takeError());
  }

  mlir::MLIRContext context;
};

TEST_F(EmitPtxTest, WhatLlvmKnowsBecomesPtx) {
  EXPECT_NE(emit("llvm.sqrt", "f32").find("sqrt.rn.f32"), std::string::npos);
}

TEST_F(EmitPtxTest, WhatCannotBeSelectedIsAnError) {
  for (int i = 0; i < 3; ++i) { // and goes on being one
    std::string error = emit("llvm.sin", "f32");
    EXPECT_NE(error.find("LLVM has no instructions for a part of this kernel (Cannot select"),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("this is a bug in tilery"), std::string::npos);
    EXPECT_NE(emit("llvm.sqrt", "f32").find("sqrt.rn.f32"), std::string::npos);
  }
}

TEST_F(EmitPtxTest, WhatNeedsALibraryIsAnError) {
  std::string error = emit("llvm.log", "f32");
  EXPECT_NE(error.find("no libcall available for flog"), std::string::npos) << error;
}

} // namespace
} // namespace tilery::nvidia
