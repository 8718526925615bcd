/* SPDX-FileCopyrightText: The Tilery authors
 * SPDX-License-Identifier: Apache-2.0 */
/* Calls of operators: Python arrays to tilery_tensor records, and the call without the GIL. */
#include "_tensors.h"

#include <string.h>

enum { MAX_TENSORS = 16, MAX_RANK = 8 };

static struct {
  tilery_status (*call)(const char *, tilery_world *, const tilery_tensor *, int32_t, const char *);
  tilery_status (*explain)(const char *, tilery_world *, const tilery_tensor *, int32_t, const char *,
                           const char **);
  void (*use_stream)(void *);
} library;

/* Names of attributes, made once. */
static PyObject *shape_name, *stride_name;

/* bind_operators(addresses of tilery_op_call, tilery_op_explain, tilery_stream_use) */
static PyObject *bind_operators(PyObject *self, PyObject *const *addresses, Py_ssize_t count) {
  (void)self;
  if (count != 3) {
    PyErr_Format(PyExc_TypeError, "bind_operators takes 3 addresses, got %zd", count);
    return NULL;
  }
  *(void **)&library.call = PyLong_AsVoidPtr(addresses[0]);
  *(void **)&library.explain = PyLong_AsVoidPtr(addresses[1]);
  *(void **)&library.use_stream = PyLong_AsVoidPtr(addresses[2]);
  shape_name = PyUnicode_InternFromString("shape");
  stride_name = PyUnicode_InternFromString("stride");
  if (PyErr_Occurred())
    return NULL;
  Py_RETURN_NONE;
}

typedef struct {
  tilery_tensor records[MAX_TENSORS];
  int64_t extents[MAX_TENSORS][2][MAX_RANK]; /* shape, strides */
  PyObject *kept[MAX_TENSORS];               /* owns what a record refers to, or null */
  Py_buffer views[MAX_TENSORS];              /* cannot be resized meanwhile; obj is null of others */
  Py_ssize_t count;
} operands;

static void release(operands *all) {
  for (Py_ssize_t i = 0; i < all->count; ++i) {
    Py_XDECREF(all->kept[i]);
    PyBuffer_Release(&all->views[i]);
  }
}

/* Integers of a tuple; their number, or -1 when there are too many, or with an error when it is none. */
static int read_extents(PyObject *sequence, int64_t *values) {
  Py_ssize_t count = sequence ? PyTuple_Size(sequence) : -1;
  for (Py_ssize_t i = 0; i < count && i < MAX_RANK; ++i)
    values[i] = PyLong_AsLongLong(PyTuple_GetItem(sequence, i));
  return PyErr_Occurred() || count > MAX_RANK ? -1 : (int)count;
}

/* A torch tensor on a device: 1 on success, else no error. */
static int read_tensor(PyObject *value, tilery_tensor *record, int64_t (*extents)[MAX_RANK]) {
  tensor_facts facts;
  if (!tensors_read(value, &facts))
    return 0;
  PyObject *shape = PyObject_GetAttr(value, shape_name);
  PyObject *strides = shape ? PyObject_CallMethodObjArgs(value, stride_name, NULL) : NULL;
  int rank = read_extents(shape, extents[0]);
  int good = rank >= 0 && read_extents(strides, extents[1]) == rank;
  Py_XDECREF(shape);
  Py_XDECREF(strides);
  PyErr_Clear();
  if (!good)
    return 0;
  record->data = (void *)(uintptr_t)facts.address;
  record->device = facts.device;
  record->dtype = facts.dtype;
  record->rank = rank;
  return 1;
}

/* An array of the host: 1 on success, else no error. */
static int read_buffer(PyObject *value, Py_buffer *view, tilery_tensor *record,
                       int64_t (*extents)[MAX_RANK]) {
  int dtype;
  if (!tensors_buffer(value, view, &dtype)) {
    view->obj = NULL;
    return 0;
  }
  int good = view->ndim <= MAX_RANK;
  for (int i = 0; i < view->ndim && good; ++i) {
    good = view->strides[i] % view->itemsize == 0;
    extents[0][i] = view->shape[i];
    extents[1][i] = view->strides[i] / view->itemsize;
  }
  record->data = view->buf;
  record->dtype = dtype;
  record->rank = view->ndim;
  return good;
}

/* Through Python's converter(value, index) -> (address, shape, strides, dtype, read only, device, owner);
 * 0 on success. */
static int read_slowly(PyObject *converter, PyObject *value, Py_ssize_t index, operands *all) {
  tilery_tensor *record = &all->records[index];
  PyObject *facts = PyObject_CallFunction(converter, "On", value, index);
  if (!facts)
    return -1;
  all->kept[index] = facts;
  PyObject *shape, *strides, *owner;
  unsigned long long address;
  unsigned int device;
  if (!PyArg_ParseTuple(facts, "KO!O!iiIO", &address, &PyTuple_Type, &shape, &PyTuple_Type, &strides,
                        &record->dtype, &record->read_only, &device, &owner))
    return -1;
  record->data = (void *)(uintptr_t)address;
  record->device = device;
  record->rank = (int32_t)PyTuple_Size(shape);
  if (PyTuple_Size(strides) != record->rank) {
    PyErr_SetString(PyExc_SystemError, "an array has another number of strides than of extents");
    return -1;
  }
  if (record->rank > MAX_RANK) /* the library says what is wrong with it, before it reads extents */
    return 0;
  return read_extents(shape, all->extents[index][0]) < 0 ||
                 read_extents(strides, all->extents[index][1]) < 0
             ? -1
             : 0;
}

static int read_operand(PyObject *converter, PyObject *value, Py_ssize_t index, operands *all) {
  tilery_tensor *record = &all->records[index];
  memset(record, 0, sizeof *record);
  all->kept[index] = NULL;
  all->views[index].obj = NULL;
  all->count = index + 1;
  record->shape = all->extents[index][0];
  record->strides = all->extents[index][1];
  if (value == Py_None) {
    record->rank = -1;
    return 0;
  }
  if (read_tensor(value, record, all->extents[index]) ||
      read_buffer(value, &all->views[index], record, all->extents[index]))
    return 0;
  return read_slowly(converter, value, index, all);
}

/* The stream of the first operand on a device; 0 on success. */
static int find_stream(const operands *all, void **stream) {
  *stream = NULL;
  for (Py_ssize_t i = 0; i < all->count; ++i)
    if (all->records[i].rank >= 0 && all->records[i].device != 0 &&
        all->records[i].device != TILERY_DEVICE_BY_ADDRESS)
      return tensors_stream(all->records[i].device, stream);
  return 0;
}

static PyObject *run(const char *name, tilery_world *world, const operands *all, int32_t given,
                     const char *options, void *stream, int explains) {
  tilery_status status;
  const char *text = NULL;
  Py_BEGIN_ALLOW_THREADS
  if (stream)
    library.use_stream(stream);
  if (explains)
    status = library.explain(name, world, all->records, given, options, &text);
  else
    status = library.call(name, world, all->records, given, options);
  if (stream)
    library.use_stream(NULL);
  Py_END_ALLOW_THREADS
  return explains ? Py_BuildValue("iz", (int)status, text) : PyLong_FromLong(status);
}

/* operate(name, world, tensors, options, converter, explains) -> status, or (status, text) of an
 * explanation. name and options are bytes, world an integer, tensors a tuple. */
static PyObject *operate(PyObject *self, PyObject *const *values, Py_ssize_t count) {
  (void)self;
  if (count != 6) {
    PyErr_Format(PyExc_TypeError, "operate takes 6 arguments, got %zd", count);
    return NULL;
  }
  const char *name = PyBytes_AsString(values[0]), *options = PyBytes_AsString(values[3]);
  tilery_world *world = PyLong_AsVoidPtr(values[1]);
  Py_ssize_t size = PyTuple_Size(values[2]);
  if (PyErr_Occurred())
    return NULL;
  operands all;
  all.count = 0;
  void *stream;
  PyObject *result = NULL;
  int good = 1;
  for (Py_ssize_t i = 0; i < size && i < MAX_TENSORS && good; ++i)
    good = read_operand(values[4], PyTuple_GetItem(values[2], i), i, &all) == 0;
  if (good && find_stream(&all, &stream) == 0)
    /* More than fit are refused before any is read: no operator takes as many. */
    result = run(name, world, &all, (int32_t)size, options, stream, PyObject_IsTrue(values[5]));
  release(&all);
  return result;
}

PyMethodDef operator_methods[] = {
    {"bind_operators", (PyCFunction)(void (*)(void))bind_operators, METH_FASTCALL,
     "bind_operators(addresses of tilery_op_call, tilery_op_explain, tilery_stream_use)"},
    {"operate", (PyCFunction)(void (*)(void))operate, METH_FASTCALL, "see the source"},
    {NULL, NULL, 0, NULL}};
