/* SPDX-FileCopyrightText: The Tilery authors
 * SPDX-License-Identifier: Apache-2.0 */
/* The launch path: Python arguments to tilery_arg records, and the call without the GIL.
 *
 * Limited API of Python 3.11, so one binary serves later versions too. The library is not
 * linked: bind() gets the address of tilery_function_launch from ctypes. Blocking calls run the
 * handlers of Python's signals through check_signals(); what a handler raised is kept for
 * take_interruption().
 */
#include "_tensors.h"

#include <string.h>

typedef tilery_status (*launch_entry)(tilery_function *, tilery_world *, const tilery_launch *,
                                      const tilery_arg *, int32_t);

enum { MAX_ARGS = 128 };

static launch_entry entry;

static PyObject *bind(PyObject *self, PyObject *address) {
  (void)self;
  entry = (launch_entry)PyLong_AsVoidPtr(address);
  if (PyErr_Occurred())
    return NULL;
  Py_RETURN_NONE;
}

static unsigned long main_thread;
static PyObject *interruption;

/* For tilery_set_interrupt_check; Python runs signal handlers in its main thread only. */
static int check_signals(void) {
  if (PyThread_get_thread_ident() != main_thread)
    return 0;
  PyGILState_STATE state = PyGILState_Ensure();
  int raised = PyErr_CheckSignals() < 0;
  if (raised) {
    PyObject *type, *trace, *before = interruption;
    PyErr_Fetch(&type, &interruption, &trace);
    PyErr_NormalizeException(&type, &interruption, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    Py_XDECREF(before);
  }
  PyGILState_Release(state);
  return raised;
}

static PyObject *watch(PyObject *self, PyObject *thread) {
  (void)self;
  main_thread = PyLong_AsUnsignedLong(thread);
  if (PyErr_Occurred())
    return NULL;
  return PyLong_FromVoidPtr((void *)(uintptr_t)check_signals);
}

static PyObject *take_interruption(PyObject *self, PyObject *unused) {
  (void)self;
  (void)unused;
  if (!interruption || PyThread_get_thread_ident() != main_thread)
    Py_RETURN_NONE;
  PyObject *taken = interruption;
  interruption = NULL;
  return taken;
}

static void set(tilery_arg *arg, uint64_t bits, int kind, int dtype) {
  memset(arg, 0, sizeof *arg);
  arg->bits = bits;
  arg->kind = (uint8_t)kind;
  arg->dtype = (uint8_t)dtype;
  arg->bytes = -1;
}

/* 1 on success. */
static int convert_tensor(PyObject *value, tilery_arg *arg) {
  tensor_facts facts;
  if (!tensors_read(value, &facts))
    return 0;
  set(arg, facts.address, TILERY_ARG_POINTER, facts.dtype);
  arg->device = facts.device;
  arg->bytes = facts.address ? -1 : 0;
  return 1;
}

/* The stream of the first argument on a device, unless the launch names one; 0 on success. */
static int find_stream(const tilery_arg *args, Py_ssize_t count, tilery_launch *how) {
  for (Py_ssize_t i = 0; i < count && !how->stream; ++i)
    if (args[i].kind == TILERY_ARG_POINTER && args[i].device != 0 &&
        args[i].device != TILERY_DEVICE_BY_ADDRESS)
      return tensors_stream(args[i].device, &how->stream);
  return 0;
}

/* What the launch must keep alive until it returns: pairs of a record and its memory's owner, and
 * buffers, which cannot be resized meanwhile. */
typedef struct {
  PyObject *pairs[MAX_ARGS];
  Py_buffer views[MAX_ARGS];
  int count, viewed;
} owners;

static void release(owners *kept) {
  while (kept->count > 0)
    Py_DECREF(kept->pairs[--kept->count]);
  while (kept->viewed > 0)
    PyBuffer_Release(&kept->views[--kept->viewed]);
}

/* Copies the record out of Python's (record, owner); 0 on success. */
static int read_record(PyObject *pair, tilery_arg *arg) {
  PyObject *record = PyTuple_GetItem(pair, 0);
  char *bytes;
  Py_ssize_t size;
  if (!record || PyBytes_AsStringAndSize(record, &bytes, &size) < 0)
    return -1;
  if (size != (Py_ssize_t)sizeof *arg) {
    PyErr_Format(PyExc_SystemError, "an argument record has %zd bytes, needs %zd", size,
                 (Py_ssize_t)sizeof *arg);
    return -1;
  }
  memcpy(arg, bytes, sizeof *arg);
  return 0;
}

/* The record that Python's converter makes; 0 on success. */
static int convert_slowly(PyObject *converter, PyObject *value, Py_ssize_t index, owners *kept,
                          tilery_arg *arg) {
  PyObject *pair = PyObject_CallFunction(converter, "On", value, index);
  if (!pair)
    return -1;
  kept->pairs[kept->count++] = pair;
  return read_record(pair, arg);
}

/* Integers of 32 and 64 bits; wider ones and unsigned ones go the slow way. */
static int convert_integer(PyObject *value, int constant, tilery_arg *arg) {
  int overflow;
  long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow || (number == -1 && PyErr_Occurred())) {
    PyErr_Clear();
    return 0;
  }
  int small = number >= INT32_MIN && number <= INT32_MAX;
  set(arg, (uint64_t)number, constant ? TILERY_ARG_CONST_INT : TILERY_ARG_INT,
      small ? TILERY_INT32 : TILERY_INT64);
  return 1;
}

/* 1 on success. */
static int convert_buffer(PyObject *value, owners *kept, tilery_arg *arg) {
  Py_buffer *view = &kept->views[kept->viewed];
  int dtype;
  if (!tensors_buffer(value, view, &dtype))
    return 0;
  ++kept->viewed;
  int64_t extent = view->itemsize;
  for (int i = 0; i < view->ndim; ++i) {
    if (view->shape[i] == 0)
      extent = 0;
    else if (extent)
      extent += (view->shape[i] - 1) * view->strides[i];
  }
  set(arg, (uint64_t)(uintptr_t)view->buf, TILERY_ARG_POINTER, dtype);
  arg->bytes = extent;
  return 1;
}

static int convert(PyObject *converter, PyObject *value, Py_ssize_t index, int constant,
                   owners *kept, tilery_arg *arg) {
  if (PyLong_CheckExact(value) && convert_integer(value, constant, arg))
    return 0;
  if (PyFloat_CheckExact(value)) {
    double number = PyFloat_AsDouble(value);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    set(arg, bits, constant ? TILERY_ARG_CONST_FLOAT : TILERY_ARG_FLOAT, TILERY_FP32);
    return 0;
  }
  if (value == Py_None) {
    set(arg, 0, TILERY_ARG_CONST_NONE, 0);
    return 0;
  }
  if (value == Py_True || value == Py_False) {
    set(arg, value == Py_True, constant ? TILERY_ARG_CONST_BOOL : TILERY_ARG_BOOL, 0);
    return 0;
  }
  if (!constant && (convert_tensor(value, arg) || convert_buffer(value, kept, arg)))
    return 0;
  return convert_slowly(converter, value, index, kept, arg);
}

static int read_grid(PyObject *grid, int64_t *extents) {
  Py_ssize_t given = PyTuple_Size(grid);
  if (given < 0)
    return -1;
  extents[0] = extents[1] = extents[2] = 1;
  for (Py_ssize_t i = 0; i < given && i < 3; ++i) {
    PyObject *extent = PyTuple_GetItem(grid, i);
    if (!extent)
      return -1;
    extents[i] = PyLong_AsLongLong(extent);
    if (PyErr_Occurred())
      return -1;
  }
  return 0;
}

/* launch(function, world, grid, options, stream, timeout, args, constant_flags, converter)
 * -> status. Handles are integers; grid is a tuple of one to three. */
static PyObject *launch(PyObject *self, PyObject *const *values, Py_ssize_t count) {
  (void)self;
  if (count != 9) {
    PyErr_Format(PyExc_TypeError, "launch takes 9 arguments, got %zd", count);
    return NULL;
  }
  tilery_function *function = PyLong_AsVoidPtr(values[0]);
  tilery_world *world = PyLong_AsVoidPtr(values[1]);
  tilery_launch how;
  memset(&how, 0, sizeof how);
  how.options = PyLong_AsVoidPtr(values[3]);
  how.stream = PyLong_AsVoidPtr(values[4]);
  how.timeout_s = PyFloat_AsDouble(values[5]);
  char *flags;
  Py_ssize_t parameters;
  if (PyErr_Occurred() || read_grid(values[2], how.grid) < 0 ||
      PyBytes_AsStringAndSize(values[7], &flags, &parameters) < 0)
    return NULL;
  Py_ssize_t size = PyTuple_Size(values[6]);
  if (size < 0)
    return NULL;
  if (size != parameters || size > MAX_ARGS) {
    PyErr_Format(PyExc_TypeError, "%zd arguments for %zd parameters (at most %d)", size,
                 parameters, MAX_ARGS);
    return NULL;
  }
  tilery_arg args[MAX_ARGS];
  owners kept;
  kept.count = kept.viewed = 0;
  for (Py_ssize_t i = 0; i < size; ++i)
    if (convert(values[8], PyTuple_GetItem(values[6], i), i, flags[i], &kept, &args[i]) < 0) {
      release(&kept);
      return NULL;
    }
  if (find_stream(args, size, &how) < 0) {
    release(&kept);
    return NULL;
  }
  tilery_status status;
  Py_BEGIN_ALLOW_THREADS
  status = entry(function, world, &how, args, (int32_t)size);
  Py_END_ALLOW_THREADS
  release(&kept);
  return PyLong_FromLong(status);
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_O, "bind(address): where tilery_function_launch is"},
    {"watch", watch, METH_O, "watch(main thread) -> address for tilery_set_interrupt_check"},
    {"take_interruption", take_interruption, METH_NOARGS,
     "what a signal handler raised during a blocking call, or None"},
    {"register_tensors", tensors_register, METH_VARARGS,
     "register_tensors(types, dtype codes, stream_of, number of device 0)"},
    {"launch", (PyCFunction)(void (*)(void))launch, METH_FASTCALL, "see the source"},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_launch", "The launch path of tilery.", -1, methods,
    NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__launch(void) {
  PyObject *made = PyModule_Create(&module);
  if (made && PyModule_AddFunctions(made, operator_methods) < 0)
    Py_CLEAR(made);
  return made;
}
