/* SPDX-FileCopyrightText: The Tilery authors
 * SPDX-License-Identifier: Apache-2.0 */
/* The contract between compiled GPU kernels and the runtime that launches them.
 *
 * A compiled kernel is one GPU function; its blocks are the program instances, with the same
 * three axes. Its parameters are, in this order:
 *   1. the run-time parameters, each in its own type (pointers 8 bytes, int1 one byte);
 *   2. for each parameter that the kernel's description lists as "extents", the bytes of memory
 *      behind that pointer, -1 when unknown (8 bytes each);
 *   3. the tensor maps that the kernel's description lists, 128 bytes each, aligned to 64;
 *   4. a pointer to a `tilery_gpu_context` in memory that the device can read.
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

#define TILERY_GPU_ABI 2

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
} tilery_gpu_context;

#ifdef __cplusplus
}
#endif
#endif
