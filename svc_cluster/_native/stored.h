/* Stored batches as reads are given them: their records one behind the other, and their placement. */
#ifndef SVC_CLUSTER_NATIVE_STORED_H
#define SVC_CLUSTER_NATIVE_STORED_H

#include "core.h"

typedef struct {
    const byte *at, *end;
} Bytes;

/* A record as it is stored, and what it counts for. */
typedef struct {
    uint64_t timestamp;
    int has_timestamp;
    Bytes headers, body;
    size_t header_count, metered_bytes;
} Record;

typedef struct {
    const byte *data;
    size_t size, record_count;
    uint64_t first_seq_num, base_timestamp, arrival;
    int by_arrival, is_uncapped;
} Stored;

/* A number as the protobuf library writes it: not one byte longer than need be, at most 64 bits. */
static inline int take_varint(Bytes *bytes, uint64_t *value)
{
    int shift;
    *value = 0;
    for (shift = 0; shift < 64 && bytes->at < bytes->end; shift += 7) {
        byte found = *bytes->at++;
        if (shift == 63 && found > 1)
            return 0;
        *value |= (uint64_t)(found & 0x7F) << shift;
        if (found < 0x80)
            return found != 0 || shift == 0;
    }
    return 0;
}

/* The content of the field that begins here, if it has this tag; empty where it has another. */
static inline int take_bytes(Bytes *bytes, byte tag, Bytes *content)
{
    uint64_t size;
    content->at = content->end = bytes->at;
    if (bytes->at == bytes->end || *bytes->at != tag)
        return 1;
    bytes->at++;
    if (!take_varint(bytes, &size) || size > (uint64_t)(bytes->end - bytes->at))
        return 0;
    content->at = bytes->at;
    content->end = bytes->at += size;
    return 1;
}

static inline size_t size_of(Bytes bytes) { return (size_t)(bytes.end - bytes.at); }

/* An empty one is not written where it stands alone. */
static inline int take_text(Bytes *bytes, byte tag, Bytes *content)
{
    const byte *begin = bytes->at;
    return take_bytes(bytes, tag, content) && (content->at < content->end || bytes->at == begin);
}

static inline int take_header(Bytes *bytes, Bytes *name, Bytes *value)
{
    Bytes header;
    return take_bytes(bytes, TAG_BYTES(2), &header) && take_text(&header, TAG_BYTES(1), name) &&
           take_text(&header, TAG_BYTES(2), value) && header.at == header.end;
}

static inline int take_record(Bytes *bytes, Record *record)
{
    Bytes fields, name, value;
    if (bytes->at == bytes->end || *bytes->at != TAG_BYTES(1) ||
        !take_bytes(bytes, TAG_BYTES(1), &fields))
        return 0;
    memset(record, 0, sizeof *record);
    if (fields.at < fields.end && *fields.at == TAG_NUMBER(1)) {
        fields.at++;
        record->has_timestamp = 1;
        if (!take_varint(&fields, &record->timestamp))
            return 0;
    }
    record->metered_bytes = 8;
    record->headers = fields;
    while (fields.at < fields.end && *fields.at == TAG_BYTES(2)) {
        if (!take_header(&fields, &name, &value))
            return 0;
        record->header_count++;
        record->metered_bytes += 2 + size_of(name) + size_of(value);
    }
    record->headers.end = fields.at;
    if (!take_text(&fields, TAG_BYTES(3), &record->body))
        return 0;
    record->metered_bytes += size_of(record->body);
    return fields.at == fields.end;
}

/* Whether all of a batch is plain, and has as many records as its placement says. */
static inline int is_plain(const Stored *stored)
{
    Bytes bytes = {stored->data, stored->data + stored->size};
    Record record;
    size_t count = 0, headers = 0;
    for (; bytes.at < bytes.end; count++) {
        if (count == RECORDS_MAX || !take_record(&bytes, &record))
            return 0;
        headers += record.header_count;
        if (headers > HEADERS_MAX)
            return 0;
    }
    return count == stored->record_count;
}

/* What `stamp` in Python makes of a record behind one of the timestamp `before`. */
static inline uint64_t timestamp_of(const Stored *stored, const Record *record, uint64_t before)
{
    uint64_t timestamp = stored->arrival;
    if (record->has_timestamp && !stored->by_arrival &&
        (stored->is_uncapped || record->timestamp <= stored->arrival))
        timestamp = record->timestamp;
    return timestamp > before ? timestamp : before;
}

/* Each raises OverflowError or TypeError: a value outside 64 bits is nothing for this core. */
static inline int get_number(PyObject *from, uint64_t *value)
{
    *value = PyLong_AsUnsignedLongLong(from);
    return !PyErr_Occurred();
}

/* None: there is no bound. */
static inline int get_bound(PyObject *from, uint64_t *value)
{
    *value = UINT64_MAX;
    return from == Py_None || get_number(from, value);
}

static inline int get_stored(PyObject *from, Stored *stored)
{
    char *data;
    Py_ssize_t size;
    uint64_t count;
    if (!PyTuple_Check(from) || PyTuple_Size(from) != 7) {
        PyErr_SetString(PyExc_TypeError, "a stored batch is given as a tuple of 7");
        return 0;
    }
    if (PyBytes_AsStringAndSize(PyTuple_GetItem(from, 0), &data, &size) < 0)
        return 0;
    stored->data = (const byte *)data;
    stored->size = (size_t)size;
    if (!get_number(PyTuple_GetItem(from, 1), &stored->first_seq_num) ||
        !get_number(PyTuple_GetItem(from, 2), &count) ||
        !get_number(PyTuple_GetItem(from, 3), &stored->base_timestamp) ||
        !get_number(PyTuple_GetItem(from, 4), &stored->arrival))
        return 0;
    stored->record_count = count;
    stored->by_arrival = PyObject_IsTrue(PyTuple_GetItem(from, 5));
    stored->is_uncapped = PyObject_IsTrue(PyTuple_GetItem(from, 6));
    return stored->by_arrival >= 0 && stored->is_uncapped >= 0;
}

#endif
