/* SPDX-FileCopyrightText: The Tilery authors
 * SPDX-License-Identifier: Apache-2.0 */
/* Tilery's public C interface (C11, stable ABI).
 *
 * Every function that can fail returns a tilery_status; the text of the last failure
 * on the calling thread is tilery_error_message(). Strings returned by the library
 * belong to the object they were asked of, or to the thread (errors, JSON results),
 * and live until the next call of the same function on that thread.
 * Handles are released by the matching _destroy, which accepts null.
 */
#ifndef TILERY_H
#define TILERY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TILERY_API __attribute__((visibility("default")))
#else
#define TILERY_API
#endif

/* ---- Errors ------------------------------------------------------------------ */

typedef enum tilery_status {
  TILERY_OK = 0,
  TILERY_COMPILE_ERROR = 1, /* the kernel's source; message has file:line:col and a caret */
  TILERY_CONFIG_ERROR = 2,  /* an option, a knob, an environment variable */
  TILERY_TARGET_ERROR = 3,  /* the target lacks a feature, which the message names */
  TILERY_LAUNCH_ERROR = 4,  /* arguments, grid, residency, a failed device assertion */
  TILERY_PEER_ERROR = 5,    /* another rank died or failed */
  TILERY_WAIT_TIMEOUT = 6,  /* a wait expired, or a deadlock was found */
  TILERY_INTERNAL_ERROR = 7 /* a bug in tilery */
} tilery_status;

TILERY_API const char *tilery_error_message(void);
TILERY_API const char *tilery_version(void);

/* ---- Data types -------------------------------------------------------------- */

typedef enum tilery_dtype {
  TILERY_INT1 = 0,
  TILERY_INT8 = 1,
  TILERY_INT16 = 2,
  TILERY_INT32 = 3,
  TILERY_INT64 = 4,
  TILERY_UINT8 = 5,
  TILERY_UINT16 = 6,
  TILERY_UINT32 = 7,
  TILERY_UINT64 = 8,
  TILERY_FP16 = 9,
  TILERY_BF16 = 10,
  TILERY_FP32 = 11,
  TILERY_FP64 = 12,
  TILERY_FP8E4NV = 13,
  TILERY_FP8E5 = 14,
  TILERY_SIGNAL = 15 /* 64-bit signal in symmetric memory */
} tilery_dtype;

/* Bytes of one element. */
TILERY_API int64_t tilery_dtype_size(tilery_dtype dtype);

/* ---- Worlds of ranks ----------------------------------------------------------
 * A tilery_world is one rank's view of N ranks. It comes from
 *   - tilery_world_init: this process is one rank of a job started by `tilery run`,
 *     torchrun, Slurm or mpirun, or the only rank when nothing is configured; or
 *   - tilery_group_create + tilery_group_rank: N ranks in this process, each driven by
 *     one thread of the caller (the in-process world).
 * Options are JSON objects; an unknown key is a TILERY_CONFIG_ERROR that names the
 * nearest key. Null means {}.
 */
typedef struct tilery_world tilery_world;
typedef struct tilery_group tilery_group;

/* Keys: "rank", "size" (both or none), "master_addr", "master_port", "token",
 * "mesh" ([sizes]), "heap_bytes", "timeout_s", "trace" (path), "device" ("cuda": each rank of this
 * host takes the next device; "cuda:1": this one), "share_device" (bool: ranks may have the same
 * one), and for one rank "shared_heap" as below. */
TILERY_API tilery_status tilery_world_init(const char *options_json, tilery_world **world);

/* Keys: "ranks" (required), "seed" (integer: reproducible schedule), "delay" (bool:
 * remote writes and signals arrive late and reordered, within the memory model),
 * "residency" (program instances that can be resident on one rank, 0 = no limit), "mesh",
 * "heap_bytes", "timeout_s", "trace", "device" ("cuda": the heaps of all ranks are that device's
 * memory, and each rank has a stream there; or a list of one device for each rank), "share_device"
 * (bool: ranks take a shorter list in turn), "shared_heap" (bool: memory that the host reads and
 * writes as well). */
TILERY_API tilery_status tilery_group_create(const char *options_json, tilery_group **group);
/* Binds `rank` of the group; call it once for each rank, from the thread that drives it. */
TILERY_API tilery_status tilery_group_rank(tilery_group *group, int32_t rank,
                                           tilery_world **world);
/* Marks the group failed, so that the other ranks' waits end with TILERY_PEER_ERROR. */
TILERY_API void tilery_group_abort(tilery_group *group, int32_t rank, const char *reason);
/* Equal for equal schedules of a group with a seed; 0 without one. */
TILERY_API uint64_t tilery_group_schedule_hash(const tilery_group *group);
TILERY_API void tilery_group_destroy(tilery_group *group);

TILERY_API int32_t tilery_world_rank(const tilery_world *world);
TILERY_API int32_t tilery_world_size(const tilery_world *world);
/* A number that no other world or team of this process has or had: what is kept for a world is found
 * by it, since handles come back. */
TILERY_API uint64_t tilery_world_serial(const tilery_world *world);
/* The number of this rank's device, whose memory its heap is; 0: the host. */
TILERY_API int32_t tilery_world_device(const tilery_world *world);
/* How many ranks of the world compute on this rank's device, itself included. */
TILERY_API int32_t tilery_world_device_ranks(const tilery_world *world);
/* Collective. Idempotent; never waits for a peer that is gone. Frees the handle. */
TILERY_API tilery_status tilery_world_finalize(tilery_world *world);
/* The two halves of tilery_world_finalize, for callers whose threads or views of symmetric memory
 * may outlive the world. Leaving waits for the calls in flight; later calls give a
 * TILERY_LAUNCH_ERROR, and the memory of all ranks stays mapped until the handle is destroyed. */
TILERY_API tilery_status tilery_world_leave(tilery_world *world);
TILERY_API void tilery_world_destroy(tilery_world *world);
/* Blocking calls ask `check` about ten times a second, from the thread that waits; when it is not
 * 0, the world fails and the call ends with a TILERY_LAUNCH_ERROR. For hosts that handle signals
 * outside the signal handler. Null: nobody is asked. */
TILERY_API void tilery_set_interrupt_check(int (*check)(void));
/* Host barrier over all ranks, on a device after their launches so far. timeout_s < 0: the world's timeout; 0: none. */
TILERY_API tilery_status tilery_world_barrier(tilery_world *world, double timeout_s);
/* Collective: every rank gets all ranks' `bytes` bytes, in rank order, in `received`
 * (size * bytes). The host side uses it to agree on shapes, options and winners. `purpose` is what errors
 * call it when other ranks do something else; it may be null. */
TILERY_API tilery_status tilery_world_all_gather_bytes(tilery_world *world, const void *sent,
                                                       void *received, size_t bytes, const char *purpose);
/* JSON: {"rank","size","mesh","kind":"single|in-process|process","heap":{"bytes","used"},
 * "timeout_s","trace","team":label or null,"ranks":[numbers in the whole world],
 * "device":number of the heaps' device,"shared_heap":bool} */
TILERY_API const char *tilery_world_describe(tilery_world *world);

/* Teams: worlds of some ranks of another world, with their own ranks 0, 1, ..., collectives,
 * symmetric memory, signals, launches and operators. Every function that takes a tilery_world takes a
 * team. A rank may belong to several. Memory of the world, and of the team that a team was made in,
 * can be used in it; ranks then count in the team. A failure is that of the whole world.
 *
 * Creation is collective over all ranks of `world`, which bring the same list (distinct ranks of
 * `world`, in the order that numbers them); else every rank gets a TILERY_LAUNCH_ERROR. A rank that
 * is not in the list gets a handle with rank -1, whose use is a TILERY_LAUNCH_ERROR. Finalizing or
 * leaving a team is collective over its ranks and frees what it has allocated; the world's end ends its
 * teams. tilery_world_destroy releases the handle. */
TILERY_API tilery_status tilery_team_create(tilery_world *world, const int32_t *ranks,
                                            int32_t num_ranks, const char *label,
                                            tilery_world **team);
/* Collective: one team for each color, ranks in the order of key and then of rank. A color below 0
 * joins none. */
TILERY_API tilery_status tilery_world_split(tilery_world *world, int32_t color, int32_t key,
                                            const char *label, tilery_world **team);

/* The timeline is recorded when the option "trace" or TILERY_TRACE names a file, which is then
 * written by tilery_world_finalize, or from tilery_world_trace_start on. */
TILERY_API tilery_status tilery_world_trace_start(tilery_world *world);
/* Collective: rank 0 merges all ranks' events into one file for Perfetto (ui.perfetto.dev). */
TILERY_API tilery_status tilery_world_trace_write(tilery_world *world, const char *path);
/* This rank's sums over all launches, as JSON: {"rank","enabled","launches","instances",
 * "launch_ns","compute_ns","transfer_ns","wait_ns","exposed_wait_ns","put_bytes","get_bytes",
 * "notifies","dropped_events"}. wait_ns adds up all program instances; exposed_wait_ns is the
 * part of launch_ns in which none of this rank's instances ran, on devices in which all of them waited.
 * Waits for the rank's launches on devices. */
TILERY_API const char *tilery_world_trace_summary(tilery_world *world);

/* ---- Symmetric memory ---------------------------------------------------------
 * Collective: all ranks call with the same `bytes` in the same order, else every rank
 * gets a TILERY_LAUNCH_ERROR that lists the differing values. Zeroed on return; aligned
 * to 4096 bytes. bytes may be 0. `label` names the object in errors. */
TILERY_API tilery_status tilery_symmetric_alloc(tilery_world *world, size_t bytes,
                                                const char *label, void **pointer);
/* The ranks must agree on `type` too, such as "float32[4, 8]"; errors list the differing ones. */
TILERY_API tilery_status tilery_symmetric_alloc_typed(tilery_world *world, size_t bytes,
                                                      const char *label, const char *type,
                                                      void **pointer);
/* Collective: `bytes` at `pointer`, memory of this rank that somebody else made, become a symmetric
 * object of all ranks, each of which brings as much, at an address of its own; of a world on a device
 * memory of its device that the driver shares. Not zeroed. Kernels take it, and parts of it, as
 * symmetric memory. It must stay as it is until tilery_symmetric_free, or until it was dropped and
 * collected, or the world has ended. */
TILERY_API tilery_status tilery_symmetric_register(tilery_world *world, void *pointer, size_t bytes,
                                                   const char *label, const char *type);
/* Not collective: this rank needs what it has registered there no more. Its memory stays until all
 * ranks have dropped theirs and collected. */
TILERY_API tilery_status tilery_symmetric_drop(tilery_world *world, const void *pointer);
/* Collective: ends registrations that all ranks have dropped, at most 32 at a time; where they began
 * is written to `released`. */
TILERY_API tilery_status tilery_symmetric_collect(tilery_world *world, void *released[32],
                                                  int32_t *count);
/* Collective: ends an allocation or a registration, which begins there. */
TILERY_API tilery_status tilery_symmetric_free(tilery_world *world, void *pointer);
/* 1 when [pointer, pointer + bytes) lies in one live symmetric object of this rank. */
TILERY_API int32_t tilery_symmetric_contains(const tilery_world *world, const void *pointer,
                                             size_t bytes);
/* Address on `rank` of the symmetric object at `pointer`, when the transport maps it. */
TILERY_API tilery_status tilery_symmetric_at(tilery_world *world, void *pointer, int32_t rank,
                                             void **peer);
/* Host-side signal operations, `signal` is this rank's address. compare and signal_op are
 * those of kernel_abi.h. */
TILERY_API tilery_status tilery_signal_notify(tilery_world *world, uint64_t *signal, int32_t rank,
                                              uint64_t value, int32_t signal_op);
TILERY_API tilery_status tilery_signal_wait(tilery_world *world, uint64_t *signal, uint64_t value,
                                            int32_t compare, double timeout_s);
/* One-sided copies by the host; `destination` (put) or `source` (get) is this rank's address
 * of a symmetric object. */
TILERY_API tilery_status tilery_put(tilery_world *world, void *destination, const void *source,
                                    size_t bytes, int32_t rank);
TILERY_API tilery_status tilery_get(tilery_world *world, void *destination, const void *source,
                                    size_t bytes, int32_t rank);

/* ---- Memory of peers -----------------------------------------------------------
 * Buffers that need not be symmetric, used by other ranks where they are. Each rank describes its own
 * (tilery_place_of), the ranks exchange the descriptions, along with what else they agree on, and turn
 * them into addresses (tilery_places_open). Ranks of one process use each other's memory, on a device
 * where its driver lets them; those of several processes the symmetric heap and most memory of devices. */
typedef enum tilery_place_kind {
  TILERY_PLACE_NONE = 0,    /* the others cannot get at it */
  TILERY_PLACE_HEAP = 1,    /* in the symmetric heap */
  TILERY_PLACE_PROCESS = 2, /* the address is the same everywhere */
  TILERY_PLACE_SHARED = 3,  /* the others have mapped it */
  TILERY_PLACE_NEW = 4      /* some of the others have not */
} tilery_place_kind;
typedef struct tilery_place {
  int32_t kind;    /* tilery_place_kind */
  int32_t problem; /* of TILERY_PLACE_NONE: for tilery_place_problem */
  uint64_t number; /* these two mean something to the runtime only */
  uint64_t offset;
} tilery_place;
/* Of `bytes` at `pointer`, on this rank. Costs about a microsecond once the memory is known. */
TILERY_API tilery_status tilery_place_of(tilery_world *world, const void *pointer, size_t bytes,
                                         tilery_place *place);
/* All ranks bring the same list: of each, in their order, `count` places. Gives this rank's address of
 * each, null for TILERY_PLACE_NONE. Collective when a place is TILERY_PLACE_NEW, which all ranks find in
 * the list alike; it is then none of the list any more. Addresses are good until the memory is freed by the
 * rank that has it, or the world finalized; those in a recorded launch too. */
TILERY_API tilery_status tilery_places_open(tilery_world *world, tilery_place *places,
                                            int32_t count, void **addresses);
/* Why it is TILERY_PLACE_NONE: "is memory of the host, which ..."; "" of others. */
TILERY_API const char *tilery_place_problem(const tilery_place *place);

/* ---- Devices ------------------------------------------------------------------
 * Numbers: 0 is the host's processor, 1 and up are the accelerators found. */
typedef struct tilery_device_properties {
  const char *name;   /* lives as long as the process */
  const char *target; /* what code for it is called: "cpu", "sm_90a" */
  int32_t processors; /* that run program instances at once */
  int32_t assembly_version;
  int64_t memory_bytes; /* 0: not known */
  int64_t shared_bytes; /* fast memory that one program instance can have, 0: none of its own */
} tilery_device_properties;

/* Accelerators that can be used; 0 when there are none, for whatever reason (tilery_doctor). */
TILERY_API int32_t tilery_device_count(void);
/* The number of "cpu", "cuda" (the first) or "cuda:1". */
TILERY_API tilery_status tilery_device_named(const char *name, int32_t *device);
TILERY_API tilery_status tilery_device_describe(int32_t device,
                                                tilery_device_properties *properties);
/* The device whose memory is at the address; 0 when it is no accelerator's. */
TILERY_API int32_t tilery_device_of(const void *address);
/* Zeroed, aligned to 4096 bytes. */
TILERY_API tilery_status tilery_device_allocate(int32_t device, size_t bytes, void **pointer);
TILERY_API tilery_status tilery_device_release(int32_t device, void *pointer, size_t bytes);
/* Between any two places; done on return. Not ordered with launches: synchronize first. */
TILERY_API tilery_status tilery_device_copy(void *destination, const void *source, size_t bytes);
/* Memory of the device for launches of this thread that name no stream: each of them finds what the
 * one before has left there, in the same stream or, on the host, in the same thread. At least `bytes`, zeroed when it is made; a call that needs more than
 * there is gets other memory, zeroed again. While the stream is recorded in a graph, the graph's own.
 * It lives as long as the process. */
TILERY_API tilery_status tilery_device_workspace(tilery_world *world, int32_t device, size_t bytes,
                                                 void **pointer);
/* Launches of this thread that name no stream, operators' included, go to this one; null: as if it
 * had not been called. */
TILERY_API void tilery_stream_use(void *stream);
/* Between the two: what this rank then gives the stream that its launches take which name none follows on
 * the device what it gave other streams between two such calls before. So do operators. A recorded graph's
 * launches follow only its own, others only what is not recorded. One thread of the rank at a time. */
TILERY_API tilery_status tilery_order_begin(tilery_world *world);
TILERY_API tilery_status tilery_order_end(tilery_world *world);
/* Waits for everything on the device (0: on every device that this process has launched on);
 * reports what failed in launches since the last call. world
 * may be null; in a world of several ranks on one device only this rank's stream is waited for. */
TILERY_API tilery_status tilery_synchronize(tilery_world *world, int32_t device);

/* A point in a stream, for times on the device. */
typedef struct tilery_event tilery_event;
TILERY_API tilery_status tilery_event_create(int32_t device, tilery_event **event);
/* In the stream that launches of this thread take which name none; world may be null. */
TILERY_API tilery_status tilery_event_record(tilery_event *event, tilery_world *world);
/* The time between two of one device, both of which must have been passed: synchronize first. */
TILERY_API tilery_status tilery_event_elapsed(tilery_event *begin, tilery_event *end,
                                              double *microseconds);
TILERY_API void tilery_event_destroy(tilery_event *event);
/* A graph: between begin and end, launches of this thread on the device that name no stream are recorded,
 * not run; one call of each kind before loads what they need. It runs them together as often as it is
 * launched, in the stream that launches of the calling thread take. Several threads may record. */
typedef struct tilery_graph tilery_graph;
TILERY_API tilery_status tilery_graph_begin(int32_t device, tilery_graph **graph);
TILERY_API tilery_status tilery_graph_end(tilery_graph *graph);
TILERY_API tilery_status tilery_graph_launch(tilery_graph *graph, tilery_world *world);
/* Also ends it. Not while it runs. */
TILERY_API void tilery_graph_destroy(tilery_graph *graph);
/* Not 0 while that stream is recorded in a graph. */
TILERY_API tilery_status tilery_stream_is_recorded(tilery_world *world, int32_t device,
                                                   int32_t *recorded);

/* ---- Functions (kernels as written) -------------------------------------------
 * A tilery_function is a kernel's source; it is compiled for each combination of
 * argument types, specialisations and constants at the first launch that needs it.
 */
typedef struct tilery_function tilery_function;

/* From a file: module-level constants, imports of tilery.language and the jit functions of
 * the same file are resolved by the front end. */
TILERY_API tilery_status tilery_function_load(const char *path, const char *name,
                                              tilery_function **function);
/* From text with the names it uses (what Python's ty.jit calls). request JSON:
 * {"source": text of the def, decorators included, "file": path, "line": first line,
 *  "indent": columns that each line has before its text here (0),
 *  "name": function name,
 *  "bindings": {name: binding},   globals and closure values that the source names
 *  "files": {path: text}}         optional: what `from .module import name` finds, before the disk
 * binding: {"int": 3} {"float": 0.5} {"bool": true} {"str": "x"} {"none": null}
 *  {"dtype": "fp32"} {"tuple_class": {"class": name, "fields": [names], "defaults": {name: binding}}}
 *  {"named_tuple": the same with "values": [binding...]} {"tuple": [binding...]} {"module": "tilery.language"}
 *  {"builtin": "tilery.language.cdiv"} {"jit": {source, file, line, name, bindings}}
 *  {"enum": "tilery.language.device.Compare.GE"}
 * floats that JSON cannot hold are {"float": "inf" | "-inf" | "nan"};
 * integers outside 53 bits are {"int": "9223372036854775807"}. */
TILERY_API tilery_status tilery_function_create(const char *request_json,
                                                tilery_function **function);
TILERY_API void tilery_function_destroy(tilery_function *function);
/* JSON: {"name","file","line","parameters":[{"name","constexpr":bool,"default":binding?,
 * "do_not_specialize":bool}]} */
TILERY_API const char *tilery_function_describe(const tilery_function *function);

typedef enum tilery_arg_kind {
  TILERY_ARG_POINTER = 0,   /* bits: address; dtype: element type */
  TILERY_ARG_INT = 1,       /* bits: two's complement; dtype INT32, INT64 or UINT64 by value,
                               or the one that the caller insists on */
  TILERY_ARG_FLOAT = 2,     /* bits: a double; dtype FP32 unless the caller insists */
  TILERY_ARG_BOOL = 3,      /* bits: 0 or 1 */
  TILERY_ARG_CONST_INT = 4, /* constexpr parameters from here on */
  TILERY_ARG_CONST_FLOAT = 5,
  TILERY_ARG_CONST_BOOL = 6,
  TILERY_ARG_CONST_NONE = 7,  /* also None given to an ordinary parameter */
  TILERY_ARG_CONST_DTYPE = 8, /* dtype */
  TILERY_ARG_CONST_OTHER = 9, /* bits: id from tilery_constant_intern */
  TILERY_ARG_DEFAULT = 10     /* take the parameter's default */
} tilery_arg_kind;

/* The driver is asked whose memory it is, which costs up to a microsecond. */
#define TILERY_DEVICE_BY_ADDRESS 0xffffffffu

typedef struct tilery_arg {
  uint64_t bits;
  uint8_t kind;      /* tilery_arg_kind */
  uint8_t dtype;     /* tilery_dtype */
  uint8_t symmetric; /* 1: must lie in the symmetric heap (checked); 0: found out by address */
  uint8_t read_only; /* 1: a kernel that may write it is refused */
  uint32_t device;   /* pointers: 0 the host, n the device of that number, or
                        TILERY_DEVICE_BY_ADDRESS */
  int64_t bytes; /* pointers: extent of the memory behind it in bytes, -1 if unknown */
} tilery_arg;

/* A constant that fits no inline kind, as a binding (see above). Equal texts give equal ids. */
TILERY_API tilery_status tilery_constant_intern(const char *binding_json, uint64_t *id);

/* Options of a launch that change the code, as JSON {"num_warps": 4, "num_stages": 3, ...};
 * "target" ("cpu", "sm_90a") compiles for a machine that need not be there, and cannot be launched;
 * equal texts give equal handles, which live as long as the process. Unknown keys are a
 * TILERY_CONFIG_ERROR with the nearest name. Null handle: the defaults. */
typedef struct tilery_options tilery_options;
TILERY_API tilery_status tilery_options_intern(const char *options_json,
                                               const tilery_options **options);

/* A copy that a launch starts beside its grid: `bytes` at `source` go to `destination` on `rank`, this
 * rank's address of a symmetric object, or with `opened` the address that tilery_places_open gave; after
 * them, and also when bytes is 0, the 8 bytes at `value` go to `signal` there. Both are read when the copy
 * runs, so that a recorded launch that is replayed sends what the launches before it have left in them.
 * signal may be null. */
typedef struct tilery_transfer {
  void *destination;
  const void *source;
  size_t bytes;
  int32_t rank;
  uint64_t *signal;      /* this rank's address of a symmetric object */
  const uint64_t *value; /* as `source`, memory of the device that the kernel runs on */
  int32_t opened;        /* 1: `destination` is an address of the peer's memory */
} tilery_transfer;

typedef struct tilery_launch {
  int64_t grid[3];
  const tilery_options *options;
  void *stream;     /* the device's own handle; null: the world's stream on the device, else the
                       device's default one */
  double timeout_s; /* for each wait; < 0: the world's */
  /* Copies that begin when everything before the launch has ended, run beside the grid without its
   * program instances (on a GPU by its copy engines), in any order, and have ended before anything
   * behind the launch begins. A kernel that has waited for a transfer's signal sees what it
   * brought. */
  const tilery_transfer *transfers;
  int32_t num_transfers;
} tilery_launch;

/* Compiles when needed, then runs the grid where the memory of its arguments is: on the host it
 * has completed on return; on a device it is in the stream, and what fails in it is reported by a
 * later launch or by tilery_synchronize. All pointers must be of one device. `args` are in
 * parameter order, constexpr ones included. world may be null for kernels that do not
 * communicate. A grid of 0 does nothing. */
TILERY_API tilery_status tilery_function_launch(tilery_function *function, tilery_world *world,
                                                const tilery_launch *launch,
                                                const tilery_arg *args, int32_t num_args);

/* A compiled specialisation. */
typedef struct tilery_kernel tilery_kernel;
/* Compile without launching (args' addresses need not be valid, only their alignment and
 * `symmetric` count). The kernel belongs to the function. */
TILERY_API tilery_status tilery_function_compile(tilery_function *function,
                                                 const tilery_options *options,
                                                 const tilery_arg *args, int32_t num_args,
                                                 tilery_kernel **kernel);
/* From a signature as on the command line: "*fp32, symm *bf16, signal, i32, i32:16, 64, fp32"
 * (types, `:16` or `:8` divisible by it, `:1` equal to 1, literals for constexpr parameters). */
TILERY_API tilery_status tilery_function_compile_signature(tilery_function *function,
                                                           const tilery_options *options,
                                                           const char *signature,
                                                           tilery_kernel **kernel);
/* stage: "core" (simplified), "vector" (loops over vectors; "simt" for a GPU), "llvm", "asm" ("ptx"),
 * "metadata" (JSON: {"name","abi","scratch_bytes","suspends","communicates","parameters","sites",
 * "target","key","cached"}, of a GPU "threads","shared_bytes","cluster" too). Null with an error for
 * another. */
TILERY_API const char *tilery_kernel_text(tilery_kernel *kernel, const char *stage);
/* A relocatable object with `<name>` as the entry point, and the metadata beside it
 * (path + ".json"). */
TILERY_API tilery_status tilery_kernel_write_object(tilery_kernel *kernel, const char *path);

/* ---- Operators -----------------------------------------------------------------
 * The operator library (ops/): host side in C++, kernels in the kernel language.
 */
typedef struct tilery_tensor {
  void *data;
  const int64_t *shape;
  const int64_t *strides; /* in elements; null: contiguous */
  int32_t rank;
  int32_t dtype;
  int32_t read_only; /* 1: refused as an output */
  uint32_t device;   /* as in tilery_arg */
} tilery_tensor;

/* JSON: [{"name","summary","tensors":[names],"options":{name:default},"communicates":bool}] */
TILERY_API const char *tilery_ops_list(void);
/* Runs operator `name`. world may be null for the ones that do not communicate. */
TILERY_API tilery_status tilery_op_call(const char *name, tilery_world *world,
                                        const tilery_tensor *tensors, int32_t num_tensors,
                                        const char *options_json);

/* What the forms of a communicating operator are expected to take with these arguments, which are
 * not touched, as JSON: {"form": microseconds, ..., "chosen": form}. "chosen" is null when the call would
 * do nothing, and a form that the arguments rule out is not in it. Collective. */
TILERY_API tilery_status tilery_op_explain(const char *name, tilery_world *world,
                                           const tilery_tensor *tensors, int32_t num_tensors,
                                           const char *options_json, const char **json);
/* Collective: measures what communicating operators cost between the world's devices, prints on
 * standard error how far it is, and keeps the figures for later processes; `json` gets them. The
 * first call of such an operator does the same unless they are known (TILERY_CALIBRATION). A
 * LaunchError in a world on the host, which has built-in rules, or of one rank. */
TILERY_API tilery_status tilery_calibrate(tilery_world *world, const char **json);
/* Collective: the figures of TILERY_CALIBRATION, "off" when it says so, else those that are kept for
 * the world's devices, "" when there are none. The same on all ranks. is_named: 1 for the former. */
TILERY_API tilery_status tilery_calibration_load(tilery_world *world, const char **json,
                                                 int32_t *is_named);
/* Collective: keeps rank 0's. */
TILERY_API tilery_status tilery_calibration_store(tilery_world *world, const char *json);
/* As the library's own warnings: on standard error, unless TILERY_LOG says less. */
TILERY_API void tilery_log_warning(const char *text);

/* ---- Cache, diagnosis ----------------------------------------------------------- */

/* JSON: {"path","entries","bytes"}; null when a TILERY_* variable is wrong. */
TILERY_API const char *tilery_cache_describe(void);
TILERY_API tilery_status tilery_cache_clear(void);
/* JSON: what was found, what was not and why: {"cpu":{...},"targets":[...],"world":{...}};
 * null when a TILERY_* variable is wrong. */
TILERY_API const char *tilery_doctor(void);

#ifdef __cplusplus
}
#endif
#endif
