// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// The table of operators. Each ops/<op>/<op>.cpp defines one or more rows.
#pragma once

#include "ops/op.h"

namespace tilery::ops {

const Op &matmulOp();
const Op &softmaxOp();
const Op &rmsNormOp();
const Op &layerNormOp();
const Op &attentionOp();
const Op &decodeOp();
const Op &swigluOp();
const Op &ropeOp();
const Op &allGatherOp();
const Op &reduceScatterOp();
const Op &allReduceOp();
const Op &allToAllOp();
const Op &broadcastOp();
const Op &agGemmOp();
const Op &gemmRsOp();
const Op &gemmArOp();

/// JSON as tilery_ops_list documents it.
const std::string &list();
/// Runs an operator; throws tilery::Error.
void call(const std::string &name, tilery_world *world, const tilery_tensor *tensors, int count,
          const char *optionsJson);

/// JSON as tilery_op_explain documents it.
std::string explain(const std::string &name, tilery_world *world, const tilery_tensor *tensors,
                    int count, const char *optionsJson);

} // namespace tilery::ops
