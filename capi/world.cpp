// SPDX-FileCopyrightText: The Tilery authors
// SPDX-License-Identifier: Apache-2.0
// Worlds, symmetric memory and error messages of the C interface.
#include "capi/world.h"
#include "runtime/launch/device_failures.h"

#include "capi/device.h"
#include "capi/error.h"
#include "runtime/world/idle_wait.h"

using namespace tilery;
using capi::guarded;
using capi::require;

static thread_local std::string lastMessage;

tilery_status capi::setError(tilery_status status, std::string message) {
  lastMessage = std::move(message);
  return status;
}

static capi::WorldUse use(const tilery_world *handle) {
  return capi::WorldUse(require(handle, "the world"));
}

/// The stream of this thread's launches.
static bool isRecorded(rt::World &world) {
  auto [driver, device] = world.device();
  void *stream = capi::threadStream() ? capi::threadStream() : world.deviceStream();
  return driver && driver->recordingOf(device, stream) != 0;
}

static tilery_world *makeTeam(tilery_world &parent, std::unique_ptr<rt::World> team) {
  auto handle = std::make_unique<tilery_world>();
  handle->world = std::move(team);
  handle->wholeGate = parent.wholeGate ? parent.wholeGate : parent.gate;
  return handle.release();
}

// Leaving a team is a collective like others: the whole world is still in use.
static void leaveTeam(tilery_world &team) {
  std::shared_lock wholeCalls(team.wholeGate->users);
  team.gate->leaving = true;
  std::unique_lock lastCall(team.gate->users);
  team.world->finalize();
}

extern "C" {

const char *tilery_error_message(void) { return lastMessage.c_str(); }

tilery_status tilery_world_init(const char *options_json, tilery_world **world) {
  return guarded([&] {
    capi::InitOptions options = capi::parseInitOptions(options_json);
    auto handle = std::make_unique<tilery_world>();
    handle->world = rt::joinWorld(options.job, options.world);
    require(world, "the result") = handle.release();
  });
}

tilery_status tilery_group_create(const char *options_json, tilery_group **group) {
  return guarded([&] {
    auto handle = std::make_unique<tilery_group>(capi::parseGroupOptions(options_json));
    require(group, "the result") = handle.release();
  });
}

tilery_status tilery_group_rank(tilery_group *group, int32_t rank, tilery_world **world) {
  return guarded([&] {
    auto handle = std::make_unique<tilery_world>();
    handle->world = require(group, "the group").group.bind(rank);
    require(world, "the result") = handle.release();
  });
}

void tilery_group_abort(tilery_group *group, int32_t rank, const char *reason) {
  if (group)
    group->group.abort(rank, reason ? reason : "it was aborted");
}

uint64_t tilery_group_schedule_hash(const tilery_group *group) {
  return group ? group->group.scheduleHash() : 0;
}

void tilery_group_destroy(tilery_group *group) { delete group; }

int32_t tilery_world_rank(const tilery_world *world) { return world ? world->world->rank() : 0; }
int32_t tilery_world_size(const tilery_world *world) { return world ? world->world->size() : 1; }
uint64_t tilery_world_serial(const tilery_world *world) { return world ? world->serial : 0; }
int32_t tilery_world_device(const tilery_world *world) {
  return world ? world->world->deviceNumber() : 0;
}
int32_t tilery_world_device_ranks(const tilery_world *world) {
  return world ? world->world->ranksOnDevice() : 1;
}

tilery_status tilery_world_leave(tilery_world *world) {
  return guarded([&] {
    require(world, "the world");
    if (world->wholeGate)
      return leaveTeam(*world);
    world->gate->leaving = true;
    std::unique_lock lastCall(world->gate->users);
    rt::leaveDevice(*world->world);
    world->world->finalize();
  });
}

void tilery_world_destroy(tilery_world *world) { delete world; }

tilery_status tilery_world_finalize(tilery_world *world) {
  if (!world)
    return TILERY_OK;
  tilery_status status = tilery_world_leave(world);
  tilery_world_destroy(world);
  return status;
}

void tilery_set_interrupt_check(int (*check)(void)) { rt::setInterruptCheck(check); }

tilery_status tilery_world_barrier(tilery_world *world, double timeout_s) {
  return guarded([&] { use(world)->barrier(timeout_s); });
}

tilery_status tilery_world_all_gather_bytes(tilery_world *world, const void *sent, void *received,
                                            size_t bytes, const char *purpose) {
  return guarded([&] { use(world)->allGather(sent, received, bytes, purpose ? purpose : ""); });
}

tilery_status tilery_place_of(tilery_world *world, const void *pointer, size_t bytes,
                              tilery_place *place) {
  return guarded([&] {
    capi::WorldUse used = use(world);
    require(place, "the result") = used->share->peers.placeOf(*used.get(), pointer, bytes);
  });
}

tilery_status tilery_places_open(tilery_world *world, tilery_place *places, int32_t count,
                                 void **addresses) {
  return guarded([&] {
    capi::WorldUse used = use(world);
    bool recording = isRecorded(*used.get());
    std::span<tilery_place> all(places, size_t(count) * size_t(used->size()));
    used->share->peers.open(*used.get(), all, addresses, recording);
  });
}

tilery_status tilery_order_begin(tilery_world *world) {
  return guarded([&] {
    capi::WorldUse used = use(world);
    if (used->domain->onDevice())
      used->operators.begin(used->device(), capi::launchStream(world));
  });
}

tilery_status tilery_order_end(tilery_world *world) {
  return guarded([&] {
    capi::WorldUse used = use(world);
    if (used->domain->onDevice())
      used->operators.end();
  });
}

const char *tilery_place_problem(const tilery_place *place) {
  return place->kind == TILERY_PLACE_NONE ? rt::problemText(place->problem) : "";
}

tilery_status tilery_team_create(tilery_world *world, const int32_t *ranks, int32_t num_ranks,
                                 const char *label, tilery_world **team) {
  return guarded([&] {
    capi::WorldUse parent = use(world);
    if (num_ranks < 0 || (num_ranks > 0 && !ranks))
      rt::raise(TILERY_CONFIG_ERROR, "{} ranks of a team are given as {}", num_ranks,
                ranks ? "a list" : "null");
    std::span<const int> listed(ranks, size_t(num_ranks));
    require(team, "the result") =
        makeTeam(*world, parent->team(listed, label ? label : "unnamed"));
  });
}

tilery_status tilery_world_split(tilery_world *world, int32_t color, int32_t key, const char *label,
                                 tilery_world **team) {
  return guarded([&] {
    capi::WorldUse parent = use(world);
    require(team, "the result") =
        makeTeam(*world, parent->split(color, key, label ? label : "unnamed"));
  });
}

const char *tilery_world_describe(tilery_world *world) {
  if (!world)
    return "{}";
  return (world->description = world->world->describeJson()).c_str();
}

const char *tilery_world_trace_summary(tilery_world *world) {
  if (!world)
    return "{}";
  rt::World &target = *world->world;
  if (tilery_status status = guarded([&] { target.collectTrace(); }); status != TILERY_OK)
    return nullptr;
  return (world->summary = target.trace.summaryJson(target.rank())).c_str();
}

tilery_status tilery_world_trace_start(tilery_world *world) {
  return guarded([&] { use(world)->startTrace(); });
}

tilery_status tilery_world_trace_write(tilery_world *world, const char *path) {
  return guarded([&] {
    require(path, "the path");
    use(world)->writeTrace(path);
  });
}

tilery_status tilery_symmetric_alloc(tilery_world *world, size_t bytes, const char *label,
                                     void **pointer) {
  return tilery_symmetric_alloc_typed(world, bytes, label, nullptr, pointer);
}

tilery_status tilery_symmetric_alloc_typed(tilery_world *world, size_t bytes, const char *label,
                                           const char *type, void **pointer) {
  return guarded([&] {
    require(pointer, "the result") =
        use(world)->allocate(bytes, label ? label : "unnamed", type ? type : "");
  });
}

tilery_status tilery_symmetric_register(tilery_world *world, void *pointer, size_t bytes,
                                        const char *label, const char *type) {
  return guarded([&] {
    capi::WorldUse used = use(world);
    used->share->registered.add(*used.get(), pointer, bytes, label ? label : "unnamed",
                                type ? type : "", isRecorded(*used.get()));
  });
}

tilery_status tilery_symmetric_drop(tilery_world *world, const void *pointer) {
  return guarded([&] {
    capi::WorldUse used = use(world);
    if (!used->share->registered.drop(*used.get(), pointer))
      rt::raise(TILERY_LAUNCH_ERROR, "{} is not the start of registered memory of {}", pointer,
                used->rankText());
  });
}

tilery_status tilery_symmetric_collect(tilery_world *world, void *released[32], int32_t *count) {
  return guarded([&] {
    capi::WorldUse used = use(world);
    std::vector<void *> ended = used->share->registered.collect(*used.get());
    std::copy(ended.begin(), ended.end(), released);
    require(count, "the result") = int32_t(ended.size());
  });
}

tilery_status tilery_symmetric_free(tilery_world *world, void *pointer) {
  return guarded([&] {
    if (pointer)
      use(world)->free(pointer);
  });
}

int32_t tilery_symmetric_contains(const tilery_world *world, const void *pointer, size_t bytes) {
  if (!world)
    return 0;
  std::shared_lock call(world->gate->users);
  return world->world->contains(pointer, bytes);
}

tilery_status tilery_symmetric_at(tilery_world *world, void *pointer, int32_t rank, void **peer) {
  return guarded([&] { require(peer, "the result") = use(world)->at(pointer, rank); });
}

tilery_status tilery_signal_notify(tilery_world *world, uint64_t *signal, int32_t rank,
                                   uint64_t value, int32_t signal_op) {
  return guarded([&] {
    if (signal_op != TILERY_SIGNAL_SET && signal_op != TILERY_SIGNAL_ADD)
      rt::raise(TILERY_CONFIG_ERROR, "{} is not a signal operation", signal_op);
    use(world)->notify(signal, rank, value, signal_op);
  });
}

tilery_status tilery_signal_wait(tilery_world *world, uint64_t *signal, uint64_t value,
                                 int32_t compare, double timeout_s) {
  return guarded([&] {
    if (compare < TILERY_CMP_EQ || compare > TILERY_CMP_GE)
      rt::raise(TILERY_CONFIG_ERROR, "{} is not a comparison for a wait", compare);
    use(world)->wait(signal, value, compare, timeout_s);
  });
}

tilery_status tilery_put(tilery_world *world, void *destination, const void *source, size_t bytes,
                         int32_t rank) {
  return guarded([&] { use(world)->put(destination, source, bytes, rank); });
}

tilery_status tilery_get(tilery_world *world, void *destination, const void *source, size_t bytes,
                         int32_t rank) {
  return guarded([&] { use(world)->get(destination, source, bytes, rank); });
}

} // extern "C"
