/* SPDX-FileCopyrightText: The Tilery authors
 * SPDX-License-Identifier: Apache-2.0 */
/* torch's tensors are known by their type alone, so that the package need not import torch. */
#include "_tensors.h"

static struct {
  PyObject *types;      /* tuple; null until the package has met a tensor */
  PyObject *dtypes;     /* dict: torch.dtype -> tilery_dtype */
  PyObject *stream_of;  /* callable: index of a device -> its current stream, or None */
  PyObject *data_ptr, *get_device, *dtype, *is_neg; /* names */
  long first_device;    /* our number of torch's device 0 */
} torch;

PyObject *tensors_register(PyObject *self, PyObject *args) {
  (void)self;
  PyObject *types, *dtypes, *stream_of;
  long first;
  if (!PyArg_ParseTuple(args, "OOOl", &types, &dtypes, &stream_of, &first))
    return NULL;
  if (!torch.data_ptr) {
    torch.data_ptr = PyUnicode_InternFromString("data_ptr");
    torch.get_device = PyUnicode_InternFromString("get_device");
    torch.dtype = PyUnicode_InternFromString("dtype");
    torch.is_neg = PyUnicode_InternFromString("is_neg");
  }
  Py_INCREF(types);
  Py_INCREF(dtypes);
  Py_INCREF(stream_of);
  torch.dtypes = dtypes;
  torch.stream_of = stream_of;
  torch.first_device = first;
  torch.types = types; /* last: it says that the rest is there */
  Py_RETURN_NONE;
}

static int is_tensor(PyObject *value) {
  PyObject *type = (PyObject *)Py_TYPE(value);
  Py_ssize_t count = torch.types ? PyTuple_Size(torch.types) : 0;
  for (Py_ssize_t i = 0; i < count; ++i)
    if (PyTuple_GetItem(torch.types, i) == type)
      return 1;
  return 0;
}

/* The result of a method without arguments as an integer; -1 with an error when it has none. */
static long long ask(PyObject *value, PyObject *method) {
  PyObject *result = PyObject_CallMethodObjArgs(value, method, NULL);
  if (!result)
    return -1;
  long long number = (long long)PyLong_AsUnsignedLongLongMask(result);
  Py_DECREF(result);
  return number;
}

int tensors_read(PyObject *value, tensor_facts *facts) {
  if (!is_tensor(value))
    return 0;
  long long device = ask(value, torch.get_device);
  if (device >= 0 && ask(value, torch.is_neg) == 0) {
    PyObject *dtype = PyObject_GetAttr(value, torch.dtype);
    PyObject *code = dtype ? PyDict_GetItemWithError(torch.dtypes, dtype) : NULL;
    Py_XDECREF(dtype);
    if (code) {
      facts->dtype = (int)PyLong_AsLong(code);
      facts->address = (uint64_t)ask(value, torch.data_ptr);
      facts->device = (uint32_t)(device + torch.first_device);
      if (!PyErr_Occurred())
        return 1;
    }
  }
  PyErr_Clear();
  return 0;
}

int tensors_stream(uint32_t device, void **stream) {
  *stream = NULL;
  if (!torch.types || torch.stream_of == Py_None || device == 0 || device == TILERY_DEVICE_BY_ADDRESS)
    return 0;
  PyObject *found = PyObject_CallFunction(torch.stream_of, "l", (long)device - torch.first_device);
  if (!found)
    return -1;
  *stream = PyLong_AsVoidPtr(found);
  Py_DECREF(found);
  return PyErr_Occurred() ? -1 : 0;
}

/* Element type of a buffer's format, or -1. Formats are native; 'l' has 8 bytes on Linux. */
static int dtype_of_format(const char *format) {
  static const struct {
    char letter;
    int dtype;
  } known[] = {{'f', TILERY_FP32},   {'d', TILERY_FP64},  {'e', TILERY_FP16},  {'?', TILERY_INT1},
               {'b', TILERY_INT8},   {'h', TILERY_INT16}, {'i', TILERY_INT32}, {'l', TILERY_INT64},
               {'q', TILERY_INT64},  {'B', TILERY_UINT8}, {'H', TILERY_UINT16},
               {'I', TILERY_UINT32}, {'L', TILERY_UINT64}, {'Q', TILERY_UINT64}};
  if (!format || !format[0] || format[1])
    return -1;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i)
    if (known[i].letter == format[0])
      return known[i].dtype;
  return -1;
}

int tensors_buffer(PyObject *value, Py_buffer *view, int *dtype) {
  if (!PyObject_CheckBuffer(value) ||
      PyObject_GetBuffer(value, view, PyBUF_STRIDES | PyBUF_FORMAT | PyBUF_WRITABLE) < 0) {
    PyErr_Clear();
    return 0;
  }
  *dtype = dtype_of_format(view->format);
  int good = *dtype >= 0 && (uint64_t)(uintptr_t)view->buf % (uint64_t)view->itemsize == 0;
  for (int i = 0; i < view->ndim && good; ++i)
    good = view->strides[i] >= 0 || view->shape[i] <= 1;
  if (!good)
    PyBuffer_Release(view);
  return good;
}
