// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Enumerations of the core dialect; a file of its own so that each is generated once.
#ifndef TILERY_CORE_ENUMS
#define TILERY_CORE_ENUMS

include "mlir/IR/EnumAttr.td"

class Core_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::tilery::core";
}

def Core_AtomicKind : Core_Enum<"AtomicKind", "read-modify-write operation", [
  I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"FAdd", 1, "fadd">,
  I32EnumAttrCase<"And", 2, "and">, I32EnumAttrCase<"Or", 3, "or">,
  I32EnumAttrCase<"Xor", 4, "xor">, I32EnumAttrCase<"Max", 5, "max">,
  I32EnumAttrCase<"Min", 6, "min">, I32EnumAttrCase<"UMax", 7, "umax">,
  I32EnumAttrCase<"UMin", 8, "umin">, I32EnumAttrCase<"FMax", 9, "fmax">,
  I32EnumAttrCase<"FMin", 10, "fmin">, I32EnumAttrCase<"Xchg", 11, "xchg">]>;

def Core_MemorySemantic : Core_Enum<"MemorySemantic", "memory order of an atomic", [
  I32EnumAttrCase<"Relaxed", 0, "relaxed">, I32EnumAttrCase<"Acquire", 1, "acquire">,
  I32EnumAttrCase<"Release", 2, "release">, I32EnumAttrCase<"AcqRel", 3, "acq_rel">]>;

def Core_MemoryScope : Core_Enum<"MemoryScope", "who observes the order (values of tilery_scope)", [
  I32EnumAttrCase<"Instance", 0, "cta">, I32EnumAttrCase<"Device", 1, "gpu">,
  I32EnumAttrCase<"System", 2, "sys">]>;

def Core_InputPrecision : Core_Enum<"InputPrecision", "how dot may round fp32 operands", [
  I32EnumAttrCase<"TF32", 0, "tf32">, I32EnumAttrCase<"TF32x3", 1, "tf32x3">,
  I32EnumAttrCase<"IEEE", 2, "ieee">]>;

#endif
