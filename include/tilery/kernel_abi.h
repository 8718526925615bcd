/* SPDX-FileCopyrightText: The Tilery authors
 * SPDX-License-Identifier: Apache-2.0 */
/* The contract between compiled CPU kernels and the runtime that calls them.
 *
 * A compiled kernel is one function, `tilery_kernel_entry`, called once for each
 * program instance. It reads `tilery_instance` at the offsets below and calls the
 * runtime only through `tilery_device_api`, so an object file needs no symbol of ours.
 * Any change of layout or meaning raises TILERY_KERNEL_ABI, which is part of the
 * key of the kernel cache.
 */
#ifndef TILERY_KERNEL_ABI_H
#define TILERY_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TILERY_KERNEL_ABI 2

typedef struct tilery_instance tilery_instance;

/* How a wait compares the signal with the expected value (order as OpenSHMEM). */
typedef enum tilery_compare {
  TILERY_CMP_EQ = 0,
  TILERY_CMP_NE = 1,
  TILERY_CMP_GT = 2,
  TILERY_CMP_LE = 3,
  TILERY_CMP_LT = 4,
  TILERY_CMP_GE = 5
} tilery_compare;

/* How a notify updates the signal. */
typedef enum tilery_signal_op {
  TILERY_SIGNAL_SET = 0,
  TILERY_SIGNAL_ADD = 1
} tilery_signal_op;

typedef enum tilery_scope {
  TILERY_SCOPE_INSTANCE = 0, /* this program instance ("cta") */
  TILERY_SCOPE_DEVICE = 1,   /* all instances of this rank ("gpu") */
  TILERY_SCOPE_SYSTEM = 2    /* every rank ("sys"), the default */
} tilery_scope;

/* Element kinds of a printed tile. */
typedef enum tilery_print_kind {
  TILERY_PRINT_INT = 0,  /* int64_t values */
  TILERY_PRINT_UINT = 1, /* uint64_t values */
  TILERY_PRINT_FLOAT = 2 /* double values */
} tilery_print_kind;

/* Flags in tilery_instance. */
enum {
  /* Accesses through remote pointers must go through `remote_store`, `remote_load`
   * and `release` (the in-process world uses this to delay them). When clear,
   * compiled code accesses remote memory directly. */
  TILERY_INSTANCE_ROUTED = 1u,
  /* Record trace events. */
  TILERY_INSTANCE_TRACED = 2u
};

/* `site` is an index into the kernel's table of source sites (file, line, column);
 * -1 when unknown. Functions that report an error do not return: the runtime
 * suspends the instance for good and fails the launch.
 * Addresses of symmetric objects are this rank's; the runtime translates them. */
typedef struct tilery_device_api {
  /* This rank, or the world size, along one axis of the mesh. */
  int32_t (*axis_rank)(tilery_instance *, int32_t axis, int32_t site);
  int32_t (*axis_size)(tilery_instance *, int32_t axis, int32_t site);
  /* Address on `rank` of the symmetric object at `local`. */
  void *(*symm_at)(tilery_instance *, void *local, int32_t rank, int32_t site);
  /* Wait until `count` consecutive signals compare true with `value`. Acquire. */
  void (*wait)(tilery_instance *, const uint64_t *signal, int64_t count, uint64_t value,
               int32_t compare, int32_t site);
  /* Release, then one update of `signal` on `rank`. */
  void (*notify)(tilery_instance *, uint64_t *signal, int32_t rank, uint64_t value,
                 int32_t signal_op, int32_t scope, int32_t site);
  /* Copy `bytes` from local `source` to `destination` on `rank`; when `signal` is not
   * null update it there after the data, also when bytes is 0. nbi = 1: may complete as
   * late as the next quiet, notify or end of the launch. */
  void (*put)(tilery_instance *, void *destination, const void *source, int64_t bytes,
              int32_t rank, uint64_t *signal, uint64_t value, int32_t signal_op, int32_t nbi,
              int32_t site);
  void (*get)(tilery_instance *, void *destination, const void *source, int64_t bytes,
              int32_t rank, int32_t nbi, int32_t site);
  void (*fence)(tilery_instance *, int32_t site);
  void (*quiet)(tilery_instance *, int32_t site);
  /* All ranks; called by one program instance a rank. */
  void (*barrier_all)(tilery_instance *, int32_t site);
  /* Called on the back edge of loops that poll memory: lets other instances run, and
   * counts as a wait for the timeout. */
  void (*yield)(tilery_instance *, int32_t site);
  /* Complete this instance's earlier remote stores (before an atomic that releases). */
  void (*release)(tilery_instance *);
  /* Element-wise access through remote pointers (only with TILERY_INSTANCE_ROUTED).
   * `mask` is one byte an element, null when all are active. Inactive elements of
   * `values` are left alone by remote_load. */
  void (*remote_store)(tilery_instance *, const uint64_t *addresses, const void *values,
                       const uint8_t *mask, int64_t count, int32_t element_bytes, int32_t site);
  void (*remote_load)(tilery_instance *, const uint64_t *addresses, void *values,
                      const uint8_t *mask, int64_t count, int32_t element_bytes, int32_t site);
  /* A failed device_assert. */
  void (*fail)(tilery_instance *, const char *message, int32_t site);
  /* device_print: `shape` has `rank` extents; scalars have rank 0. `values` null: the prefix alone. */
  void (*print)(tilery_instance *, const char *prefix, int32_t kind, const void *values,
                const int64_t *shape, int32_t rank, int32_t hex, int32_t site);
  /* A failed bounds check; `access` says who accesses what, "tl.load reads argument 'x'", of
   * which element `index` is not one of the `count` there are. */
  void (*out_of_bounds)(tilery_instance *, const char *access, int64_t index, int64_t count,
                        int32_t site);
} tilery_device_api;

/* One program instance. Compiled code reads the fields above `launch` at these offsets. */
struct tilery_instance {
  const tilery_device_api *api; /*  0 */
  int32_t program_id[3];        /*  8 */
  int32_t num_programs[3];      /* 20 */
  int32_t rank;                 /* 32 */
  int32_t num_ranks;            /* 36 */
  void *scratch;                /* 40: at least the kernel's scratch_bytes, 64-byte aligned */
  uint32_t flags;               /* 48 */
  uint32_t reserved;            /* 52 */
  void *launch;                 /* 56: private to the runtime */
};

/* `arguments`: one 8-byte slot a run-time parameter: pointers as they are, integers sign-
 * or zero-extended, floats in the low bytes in their own format. Then one for each parameter that
 * the description lists as "extents": the bytes of memory behind that pointer, -1 when unknown. */
typedef void (*tilery_kernel_entry)(tilery_instance *, const uint64_t *arguments);

#ifdef __cplusplus
}
#endif
#endif
