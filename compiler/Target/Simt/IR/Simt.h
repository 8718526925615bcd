// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The simt dialect.
#pragma once

#include "compiler/Dialect/Core/IR/Core.h"

#include "compiler/Target/Simt/IR/SimtDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/Target/Simt/IR/SimtTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Target/Simt/IR/SimtAttrs.h.inc"
#define GET_OP_CLASSES
#include "compiler/Target/Simt/IR/SimtOps.h.inc"
