// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Enumerations of the device dialect.
#ifndef TILERY_DEVICE_ENUMS
#define TILERY_DEVICE_ENUMS

include "mlir/IR/EnumAttr.td"

class Device_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::tilery::device";
}
def Device_Compare : Device_Enum<"Compare", "comparison of a wait (values of tilery_compare)", [
  I32EnumAttrCase<"EQ", 0, "eq">, I32EnumAttrCase<"NE", 1, "ne">, I32EnumAttrCase<"GT", 2, "gt">,
  I32EnumAttrCase<"LE", 3, "le">, I32EnumAttrCase<"LT", 4, "lt">, I32EnumAttrCase<"GE", 5, "ge">]>;
def Device_SignalOp : Device_Enum<"SignalUpdate", "update of a notify (values of tilery_signal_op)", [
  I32EnumAttrCase<"Set", 0, "set">, I32EnumAttrCase<"Add", 1, "add">]>;

#endif
