// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The device dialect's types and operations.
#pragma once

#include "compiler/Dialect/Core/IR/Core.h"

#include "compiler/Dialect/Device/IR/DeviceDialect.h.inc"
#include "compiler/Dialect/Device/IR/DeviceEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/Dialect/Device/IR/DeviceTypes.h.inc"
#define GET_OP_CLASSES
#include "compiler/Dialect/Device/IR/DeviceOps.h.inc"
