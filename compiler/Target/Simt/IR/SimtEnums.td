// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Enumerations of the simt dialect (none yet).
#ifndef TILERY_SIMT_ENUMS
#define TILERY_SIMT_ENUMS

include "mlir/IR/EnumAttr.td"

#endif
