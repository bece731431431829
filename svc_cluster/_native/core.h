/* What the functions of the native core share: bytes that grow up to a bound, UTF-8, varints, base64.
 *
 * Nothing here but `sync_open` keeps state between calls, and nothing touches Python. Every function
 * that writes has asked `room_for` before; every function that reads is told how much there is.
 */
#ifndef SVC_CLUSTER_NATIVE_CORE_H
#define SVC_CLUSTER_NATIVE_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

typedef unsigned char byte;

#define RECORDS_MAX 1000
#define METERED_BYTES_MAX ((size_t)1048576)
/* Of one call: so many headers take less than a millisecond. */
#define HEADERS_MAX ((size_t)16384)
/* No answer of any function is larger. */
#define OUT_BYTES_MAX ((size_t)8 * 1024 * 1024)
#define VARINT_BYTES_MAX ((size_t)10)

/* Numbers as protobuf names fields: the field's number times 8, plus its wire type. */
#define TAG_BYTES(field) ((byte)((field) << 3 | 2))
#define TAG_NUMBER(field) ((byte)((field) << 3))

typedef struct {
    byte *data;
    size_t size, room;
} Out;

/* Whether so many bytes more can be written behind `size`. */
static inline int room_for(Out *out, size_t more)
{
    size_t wanted, room;
    byte *grown;
    if (more > OUT_BYTES_MAX - out->size)
        return 0;
    wanted = out->size + more;
    if (wanted <= out->room)
        return 1;
    room = out->room * 2 > wanted ? out->room * 2 : wanted;
    if (room > OUT_BYTES_MAX)
        room = OUT_BYTES_MAX;
    grown = PyMem_Malloc(room);
    if (grown == NULL)
        return 0;
    if (out->size)
        memcpy(grown, out->data, out->size);
    PyMem_Free(out->data);
    out->data = grown;
    out->room = room;
    return 1;
}

static inline void put(Out *out, const void *from, size_t size)
{
    if (size)
        memcpy(out->data + out->size, from, size);
    out->size += size;
}

static inline size_t varint_size(uint64_t value)
{
    size_t size = 1;
    for (; value >= 0x80; value >>= 7)
        size++;
    return size;
}

static inline byte *write_varint(byte *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *to++ = (byte)(value | 0x80);
    *to++ = (byte)value;
    return to;
}

static inline uint64_t word_at(const byte *from)
{
    uint64_t word;
    memcpy(&word, from, 8);
    return word;
}

#define EACH_BYTE 0x0101010101010101ULL
#define HIGH_BITS 0x8080808080808080ULL

/* Whether one of eight bytes is a quote, a backslash, a control character, or not ASCII. */
static inline int is_odd(uint64_t word)
{
    uint64_t quote = word ^ EACH_BYTE * '"', backslash = word ^ EACH_BYTE * '\\';
    uint64_t found = ((quote - EACH_BYTE) & ~quote) | ((backslash - EACH_BYTE) & ~backslash) |
                     ((word - EACH_BYTE * 0x20) & ~word) | word;
    return (found & HIGH_BITS) != 0;
}

/* The size of the character of UTF-8 at the beginning of `left` bytes, at least one; 0: none. */
static inline size_t character_size(const byte *at, size_t left)
{
    size_t size, place;
    byte first = at[0];
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (left < size)
        return 0;
    for (place = 1; place < size; place++)
        if ((at[place] & 0xC0) != 0x80)
            return 0;
    if ((first == 0xE0 && at[1] < 0xA0) || (first == 0xED && at[1] > 0x9F) ||
        (first == 0xF0 && at[1] < 0x90) || (first == 0xF4 && at[1] > 0x8F))
        return 0;
    return size;
}

extern const byte BASE64_DIGITS[65];
/* The value of each digit; 0x80 for what is none. */
extern byte BASE64_VALUES[256];

PyObject *encode_append(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *cut_stored(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *encode_read(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *sync_open(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *sync_submit(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *sync_take(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *sync_wait(PyObject *module, PyObject *const *given, Py_ssize_t count);
PyObject *sync_close(PyObject *module, PyObject *const *given, Py_ssize_t count);

#endif
