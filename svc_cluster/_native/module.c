/* The module `svc_cluster._native._core`. Its codecs keep nothing between calls and hold the
 * interpreter's lock throughout: the bounds of its functions keep each call well below a turn of an
 * event loop. `sync_open` starts a thread, which does without that lock.
 */
#include "core.h"

#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST ""
#endif

const byte BASE64_DIGITS[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
byte BASE64_VALUES[256];

static PyMethodDef methods[] = {
    {"cut_stored", (PyCFunction)(void (*)(void))cut_stored, METH_FASTCALL, NULL},
    {"encode_append", (PyCFunction)(void (*)(void))encode_append, METH_FASTCALL, NULL},
    {"encode_read", (PyCFunction)(void (*)(void))encode_read, METH_FASTCALL, NULL},
    {"sync_close", (PyCFunction)(void (*)(void))sync_close, METH_FASTCALL, NULL},
    {"sync_open", (PyCFunction)(void (*)(void))sync_open, METH_FASTCALL, NULL},
    {"sync_submit", (PyCFunction)(void (*)(void))sync_submit, METH_FASTCALL, NULL},
    {"sync_take", (PyCFunction)(void (*)(void))sync_take, METH_FASTCALL, NULL},
    {"sync_wait", (PyCFunction)(void (*)(void))sync_wait, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static int start(PyObject *module)
{
    size_t digit;
    memset(BASE64_VALUES, 0x80, sizeof BASE64_VALUES);
    for (digit = 0; digit < 64; digit++)
        BASE64_VALUES[BASE64_DIGITS[digit]] = (byte)digit;
    return PyModule_AddStringConstant(module, "SOURCE_DIGEST", SOURCE_DIGEST);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)start}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_core", NULL, 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
