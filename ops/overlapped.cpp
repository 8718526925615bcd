// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Tiles, agreement and workspace of an overlapped product.
#include "ops/overlapped.h"

#include <optional>

namespace tilery::ops {

std::vector<std::pair<std::string, std::string>>
overlappedOptions(std::vector<std::pair<std::string, std::string>> own) {
  std::vector<std::pair<std::string, std::string>> all = {
      {"block_m", "0"}, {"block_n", "0"}, {"block_k", "0"}, {"columns", "0"}, {"instances", "0"}};
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

AgreedValues partialSums(Call &call, int64_t m, int64_t n, int32_t operand, tilery_dtype partial) {
  MatmulChoice choice = matmulChoice(call);
  return {{"M", m},
          {"N", n},
          agreedType("the element type", operand),
          agreedType("the type of partial sums", partial),
          {"option 'block_m'", choice.blockM},
          {"option 'block_n'", choice.blockN},
          {"option 'columns'", choice.columns}};
}

static const Workspace &productMemory(Call &call, int64_t m, int64_t n, tilery_dtype partial) {
  int64_t bytes = std::max<int64_t>(m * n, 1) * tilery_dtype_size(partial);
  return workspace(
      call.world(),
      {.key = call.op + " unfused", .stageBytes = bytes, .buffers = 1, .resultBytes = bytes});
}

static void storeRows(const Memory &source, const Matrix &out, World &world) {
  constexpr int64_t most = 64;
  int64_t blockM = blockFor(out.rows, 1, most), blockN = blockFor(out.columns, 1, most);
  Launch how{.x = ceilDiv(out.rows, blockM), .y = ceilDiv(out.columns, blockN)};
  int64_t bytes = ((out.rows - 1) * out.rowStride + (out.columns - 1) * out.columnStride + 1) *
                  tilery_dtype_size(static_cast<tilery_dtype>(out.dtype));
  sharedKernel("store_rows")
      .launch(world, how, source, Memory{out.data, static_cast<tilery_dtype>(out.dtype), bytes},
              out.rows, out.columns, out.rowStride, out.columnStride, blockM, blockN);
}

static bool isContiguous(const Matrix &x) { return x.columnStride == 1 && x.rowStride == x.columns; }

void reduceUnfused(Call &call, const Matrix &a, const Matrix &b, const Matrix &out,
                   tilery_dtype partial, const char *reduction) {
  int64_t m = a.rows, n = b.columns;
  int ranks = call.world().size();
  const Workspace &ws = productMemory(call, m, n, partial);
  bool direct = out.dtype == partial && isContiguous(out);
  MatrixTensor result(direct ? Memory{out.data, partial} : ws.result(partial), out.rows, n);
  bool inPlace = ranks == 1 || std::string_view(reduction) == "all_reduce";
  MatrixTensor product = inPlace ? result : MatrixTensor(ws.stage(partial), m, n);
  callOp("matmul", call, {MatrixTensor(a), MatrixTensor(b), product}, tileOptions(call));
  if (ranks > 1)
    callOp(reduction, call, {product, result});
  if (!direct && out.rows > 0)
    storeRows(ws.result(partial), out, call.world());
}

void reduceScattered(Call &call, const Matrix &a, const Matrix &b, const Matrix &out) {
  World &world = call.world();
  Shards shards(out.rows, world.size());
  auto dtype = static_cast<tilery_dtype>(out.dtype);
  int64_t rowBytes = out.columns * tilery_dtype_size(dtype);
  const Workspace &ws = workspace(world, {.key = call.op + " scattered",
                                          .stageBytes = shards.rows * rowBytes,
                                          .buffers = 1,
                                          .resultBytes = isContiguous(out) ? 0 : out.rows * rowBytes});
  MatrixTensor own(ws.stage(dtype), shards.own(out.rows, world.rank()), out.columns);
  MatrixTensor all(isContiguous(out) ? Memory{out.data, dtype} : ws.result(dtype), out.rows, out.columns);
  std::string options = tileOptions(call);
  options.back() = ',';
  options += "\"instances\":" + std::to_string(call.options.natural("instances", 0)) + ",\"partials\":\"" +
             call.options.text("partials") + "\",\"form\":\"overlapped\"}";
  callOp("gemm_rs", call, {MatrixTensor(a), MatrixTensor(b), own}, options);
  callOp("all_gather", call, {own, all});
  if (!isContiguous(out))
    storeRows(ws.result(dtype), out, world);
}

std::string tileOptions(const Call &call) {
  std::string json;
  for (const char *name : {"block_m", "block_n", "block_k", "columns"})
    json += (json.empty() ? "{\"" : ", \"") + std::string(name) +
            "\": " + std::to_string(call.options.integer(name));
  return json + "}";
}

void callOp(const char *name, Call &call, std::initializer_list<tilery_tensor> tensors,
            const std::string &options) {
  ops::call(name, call.worldOrNull(), tensors.begin(), int(tensors.size()), options.c_str());
}

tilery_dtype partialType(const Call &call, int32_t result, int32_t operand) {
  bool asResult = call.options.choice("partials", {"out", "accumulator"}) == 0;
  return asResult ? static_cast<tilery_dtype>(result) : accumulator(operand);
}

// What the tiles follow from is as on the rank where it is least: operands that bulk copies cannot
// bring, or none on a rank without a part of K; fewer processors.
AgreedProduct agreeOnProduct(Call &call, AgreedValues values, const Matrix &a, const Matrix &b,
                             PeerBuffers *buffers) {
  tilery_device_properties device = call.device();
  MatmulProblem problem = matmulProblem(a, b, 1, device);
  problem.streams &= a.columns > 0;
  values.push_back(agreedText("option 'form'", call.options.text("form")));
  values.push_back({"option 'instances'", call.options.natural("instances", 0)});
  std::vector<int64_t> least =
      call.agree(values, {problem.streams, -problem.columnUnit, -problem.n, -problem.k,
                          int64_t(device.shared_bytes), device.processors, call.residentShare()},
                 buffers);
  problem.streams = least[0] != 0;
  problem.columnUnit = -least[1];
  problem.n = -least[2];
  problem.k = -least[3];
  device.shared_bytes = least[4];
  device.processors = decltype(device.processors)(least[5]);
  return {problem, device, least[6]};
}

// One rank has nothing to send, and an overlapped product would only do without parts of tiles.
FormChoice chooseProductForm(Call &call, const std::vector<std::string> &forms, const char *onHost,
                             const AgreedProduct &agreed, int64_t sumSize, int64_t depth) {
  int ranks = call.world().size();
  const MatmulProblem &p = agreed.problem;
  std::vector<int64_t> depends = {p.m, p.n, p.k, p.dtype, p.streams, p.columnUnit, agreed.device.processors,
                                  int64_t(agreed.device.shared_bytes), agreed.instances, sumSize, 0};
  std::optional<ProductCase> product;
  auto best = [&](bool peersBuffers) {
    depends.back() = peersBuffers;
    return chooseForm(call, forms, onHost, depends, [&](const Calibration &figures, const std::string &form) {
      if ((ranks == 1 && form != "unfused") || (isDirect(form) && !peersBuffers))
        return Never;
      if (!product)
        product = productCase(call.op, p, agreed.device, ranks, agreed.instances, sumSize, depth);
      return productMicroseconds(figures, *product, form);
    });
  };
  return chooseWithDirect(call, forms, best);
}

// As many as a rank's share of its device runs at once; on the host they run one after the other, and
// more than a few only add switches.
static int64_t chooseInstances(Call &call, const tilery_device_properties &device, int64_t share) {
  return call.options.natural("instances", hasWarps(device) ? share : std::min<int64_t>(share, 8));
}

Overlapped::Overlapped(Call &call, const AgreedProduct &agreed, int64_t n, int64_t depth)
    : call(call), device(agreed.device),
      instances(chooseInstances(call, agreed.device, agreed.instances)), columns(n) {
  MatmulProblem problem = agreed.problem;
  problem.n = n;
  problem.k = depth;
  MatmulChoice choice = matmulChoice(call);
  choice.parts = 1;
  plan = planMatmul(problem, device, choice);
  checkColumns(call, plan);
}

void chooseSentColumns(const Call &call, AgreedProduct &agreed) {
  if (matmulChoice(call).columns == 0)
    agreed.problem.columnUnit = 64;
}

bool Overlapped::isLinkSlower(const AgreedProduct &agreed, int64_t bytes) const {
  double product = expectedMicroseconds(plan, agreed.problem, device);
  return double(bytes) / bytesOfLink > product / call.world().size();
}

void Overlapped::leaveRoomToSend(int64_t operandSize, tilery_dtype partial) {
  constexpr int64_t aside = 4096, padding = 8; // signals and alignment; columns
  int64_t tile = plan.blockM * (plan.blockN + padding) * tilery_dtype_size(partial);
  int64_t step = (plan.blockM + plan.columns) * plan.blockK * operandSize;
  int64_t steps = (int64_t(device.shared_bytes) - tile - aside) / step;
  plan.stages = std::clamp<int64_t>(steps, std::min<int64_t>(plan.stages, 3), plan.stages);
}

Workspace &Overlapped::memoryOf(const std::string &variant, WorkspaceNeed need) {
  key = call.op + " " + variant + " x" + std::to_string(instances) + " " + need.key;
  need.key = key;
  need.instances = instances;
  return workspace(call.world(), need);
}

} // namespace tilery::ops
