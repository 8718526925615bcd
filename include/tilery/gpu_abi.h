/* SPDX-FileCopyrightText: The Tilery authors
 * SPDX-License-Identifier: Apache-2.0 */
/* The contract between compiled GPU kernels and the runtime that launches them.
 *
 * A compiled kernel is one GPU function; its blocks are the program instances, with the same
 * three axes. Its parameters are, in this order:
 *   1. the run-time parameters, each in its own type (pointers 8 bytes, int1 one byte);
 *   2. for each parameter that the kernel's description lists as "extents", the bytes of memory
 *      behind that pointer, -1 when unknown (8 bytes each);
 *   3. for each parameter that it lists as "peers", memory of the user that was registered, the address
 *      of num_ranks distances in bytes from this rank's memory to each rank's (8 bytes each);
 *   4. the tensor maps that the kernel's description lists, 128 bytes each, aligned to 64;
 *   5. a pointer to a `tilery_gpu_context` in memory that the device can read.
 * Integers given as 8-byte slots (kernel_abi.h) can be passed as they are: a driver reads as
 * many low bytes as the parameter has.
 * Any change of layout or meaning raises TILERY_GPU_ABI, which is part of the cache's key.
 */
#ifndef TILERY_GPU_ABI_H
#define TILERY_GPU_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TILERY_GPU_ABI 4

typedef enum tilery_gpu_failure_kind {
  TILERY_GPU_OK = 0,
  TILERY_GPU_ASSERTION = 1,    /* a device_assert; `message` is its text */
  TILERY_GPU_OUT_OF_BOUNDS = 2,/* a bounds check; `expected` is the number of elements, `seen`
                                  the index, `message` who accesses what */
  TILERY_GPU_WAIT_TIMEOUT = 3, /* a wait; `address` is the signal's */
  TILERY_GPU_BAD_RANK = 4      /* a rank that is not in the world; `seen` is the rank */
} tilery_gpu_failure_kind;

/* The first failure of a launch, in host memory that the device can write, all zero before it.
 * The instance that changes `claimed` from 0 to 1 writes the rest, then a system-scope release
 * sets `kind`. Every thread of an instance that failed leaves the kernel; the other instances
 * see `kind` where they wait. */
typedef struct tilery_gpu_failure {
  uint32_t claimed;      /*  0 */
  uint32_t kind;         /*  4: tilery_gpu_failure_kind */
  int32_t site;          /*  8: index into the kernel's table of places, -1 when unknown */
  int32_t message;       /* 12: index into the kernel's table of messages, -1 when none */
  int32_t program_id[3]; /* 16 */
  int32_t rank;          /* 28 */
  uint64_t address;      /* 32 */
  uint64_t expected;     /* 40 */
  uint64_t seen;         /* 48 */
  int32_t compare;       /* 56: tilery_compare of a wait */
  int32_t reserved;      /* 60 */
} tilery_gpu_failure;

/* What happened in a kernel that was compiled with a timeline. */
typedef enum tilery_gpu_event_kind {
  TILERY_GPU_EVENT_INSTANCE = 1, /* a program instance, from its first to its last operation */
  TILERY_GPU_EVENT_TILE = 2,     /* one iteration of its loop over tiles; begins where the one before
                                    ended, or the instance began: `begin_ns` is 0 */
  TILERY_GPU_EVENT_WAIT = 3,     /* a wait that was in vain at first; `amount` is the value waited for */
  TILERY_GPU_EVENT_PUT = 4,      /* `amount` is the number of bytes, `peer` the rank */
  TILERY_GPU_EVENT_GET = 5,
  TILERY_GPU_EVENT_NOTIFY = 6    /* `amount` is the value, `peer` the rank */
} tilery_gpu_event_kind;

/* Times are of the device's clock. */
typedef struct tilery_gpu_event {
  uint32_t stamp;     /*  0: 1 + the low bits of its ticket; 0: never written */
  uint16_t processor; /*  4: the multiprocessor */
  uint8_t kind;       /*  6: tilery_gpu_event_kind */
  uint8_t producer;   /*  7: 1 on the warp that copies for the others */
  uint32_t kernel;    /*  8: trace_kernel of the context */
  int32_t site;       /* 12: index into the kernel's table of places, -1 when unknown */
  uint64_t begin_ns;  /* 16 */
  uint64_t end_ns;    /* 24 */
  uint32_t instance;  /* 32: number of the program instance, x fastest */
  int32_t peer;       /* 36: rank in the kernel's world, -1: none */
  uint64_t amount;    /* 40 */
} tilery_gpu_event;

/* A power of two: an event goes to the place that the low bits of its ticket name, so that the newest
 * stay. Tickets come from `next`; some are never used. */
#define TILERY_GPU_TRACE_EVENTS (1 << 17)
typedef struct tilery_gpu_trace {
  uint64_t next;
  uint64_t reserved[7];
  tilery_gpu_event events[TILERY_GPU_TRACE_EVENTS]; /* 64 */
} tilery_gpu_trace;

typedef struct tilery_gpu_context {
  int32_t rank;                  /*  0 */
  int32_t num_ranks;             /*  4 */
  uint64_t heap_base;            /*  8: this rank's symmetric heap as this device sees it */
  const uint64_t *peer_bases;    /* 16: each rank's heap as this device sees it */
  tilery_gpu_failure *failure;   /* 24 */
  uint64_t timeout_ns;           /* 32: of each wait, 0 = none */
  uint64_t *barrier_epochs;      /* 40: num_ranks cells in each rank's heap for barrier_all */
  void *scratch;                 /* 48: scratch_bytes times the number of instances */
  const int32_t *mesh;           /* 56: number of axes, then rank and extent along each */
  tilery_gpu_trace *trace;       /* 64: of kernels that were compiled with a timeline, else null */
  uint32_t trace_kernel;         /* 72: what their events call the kernel */
  uint32_t reserved;             /* 76 */
} tilery_gpu_context;

#ifdef __cplusplus
}
#endif
#endif
