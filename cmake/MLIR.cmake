# Finds MLIR 22; shared and static linking.
list(APPEND CMAKE_PREFIX_PATH /usr/lib/llvm-22)
find_package(MLIR 22.1 REQUIRED CONFIG)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
include_directories(${PROJECT_BINARY_DIR})
add_definitions(${LLVM_DEFINITIONS})

# tilery_add_dialect(<prefix> <dialect>): everything generated from <prefix>Ops.td and
# <prefix>Enums.td of the current folder.
function(tilery_add_dialect name dialect)
  set(LLVM_TARGET_DEFINITIONS ${name}Ops.td)
  foreach(kind decls defs)
    string(REPLACE "decls" "h.inc" suffix ${kind})
    string(REPLACE "defs" "cpp.inc" suffix ${suffix})
    mlir_tablegen(${name}Dialect.${suffix} -gen-dialect-${kind} -dialect=${dialect})
    mlir_tablegen(${name}Types.${suffix} -gen-typedef-${kind} -typedefs-dialect=${dialect})
    mlir_tablegen(${name}Attrs.${suffix} -gen-attrdef-${kind} -attrdefs-dialect=${dialect})
    mlir_tablegen(${name}Ops.${suffix} -gen-op-${kind})
  endforeach()
  set(LLVM_TARGET_DEFINITIONS ${name}Enums.td)
  mlir_tablegen(${name}Enums.h.inc -gen-enum-decls)
  mlir_tablegen(${name}Enums.cpp.inc -gen-enum-defs)
  add_public_tablegen_target(Tilery${name}IncGen)
endfunction()

# Compiler libraries link neither form of MLIR; what is linked in the end names one of two:
# the shared libraries (development, tests) or the parts that we use of the static ones (the
# release library and the wheel). So one compilation serves both. Never mix them in one process.
add_library(TileryMLIR INTERFACE)
target_link_libraries(TileryMLIR INTERFACE MLIR LLVM)

# In the static case MLIR's imported targets must forget the shared LLVM.
foreach(library ${MLIR_ALL_LIBS} ${MLIR_DIALECT_LIBS} ${MLIR_CONVERSION_LIBS}
        ${MLIR_TRANSLATION_LIBS} ${MLIR_EXTENSION_LIBS} ${MLIR_EXPORTED_TARGETS})
  if(TARGET ${library})
    get_target_property(links ${library} INTERFACE_LINK_LIBRARIES)
    if(links)
      list(REMOVE_ITEM links LLVM)
      set_target_properties(${library} PROPERTIES INTERFACE_LINK_LIBRARIES "${links}")
    endif()
  endif()
endforeach()
llvm_map_components_to_libnames(TILERY_LLVM_LIBS
  core support passes orcjit jitlink x86codegen x86asmparser x86desc x86info
  nvptxcodegen nvptxdesc nvptxinfo)
add_library(TileryMLIRStatic INTERFACE)
target_link_libraries(TileryMLIRStatic INTERFACE
  MLIRArithDialect MLIRArithTransforms MLIRFuncDialect MLIRMathDialect MLIRMathTransforms
  MLIRSCFDialect MLIRSCFTransforms MLIRTensorDialect MLIRVectorDialect
  MLIRVectorTransforms MLIRLLVMDialect MLIRLLVMIRTransforms
  MLIRArithToLLVM MLIRControlFlowToLLVM MLIRFuncToLLVM MLIRMathToLLVM MLIRMathToLibm
  MLIRSCFToControlFlow MLIRVectorToLLVM MLIRVectorToLLVMPass MLIRReconcileUnrealizedCasts
  MLIRNVVMDialect MLIRNVVMToLLVM MLIRNVVMToLLVMIRTranslation
  MLIRTargetLLVMIRExport MLIRBuiltinToLLVMIRTranslation MLIRLLVMToLLVMIRTranslation
  MLIRParser MLIRPass MLIRTransforms MLIRIR MLIRSupport ${TILERY_LLVM_LIBS})
