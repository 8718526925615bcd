/* SPDX-FileCopyrightText: The Tilery authors
 * SPDX-License-Identifier: Apache-2.0 */
/* What the launch path knows of arrays that it reads itself: torch's tensors and buffers. */
#ifndef TILERY_PYTHON_TENSORS_H
#define TILERY_PYTHON_TENSORS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include "tilery/tilery.h"

/* register_tensors(types, dtype codes, stream_of, number of device 0): what torch's tensors are, once the
 * package has met one. */
PyObject *tensors_register(PyObject *self, PyObject *args);

typedef struct {
  uint64_t address;
  uint32_t device;
  int dtype;
} tensor_facts;

/* Of a torch tensor on a device: 1 on success. What is left goes the slow way, which finds the error. */
int tensors_read(PyObject *value, tensor_facts *facts);

/* The stream that torch works on now on our device of that number, in `stream`; null: the default one.
 * 0 on success. */
int tensors_stream(uint32_t device, void **stream);

/* A writable, aligned buffer with strides >= 0, such as most NumPy arrays: 1 on success, and the caller
 * releases `view`. What is left goes the slow way. */
int tensors_buffer(PyObject *value, Py_buffer *view, int *dtype);

/* The operators' part of the module. */
extern PyMethodDef operator_methods[];

#endif
