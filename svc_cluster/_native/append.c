/* The JSON body of an append, of the plain shape, made into a stored batch. */
#include "core.h"
#include "json_text.h"

typedef struct {
    Out out;
    int is_base64;
    size_t record_count, metered_bytes, header_count, timestamps_given;
    Number timestamp_first, timestamp_max;
} Batch;

/* In front of a record's headers, until it is known how long all of it is: two tags, its length and
 * its timestamp take less. */
#define GAP ((size_t)24)

/* Longer fencing tokens are refused, in words that Python has. */
#define TOKEN_BYTES_MAX ((size_t)36)

static int put_bytes(Batch *batch, byte tag, const String *string)
{
    Out *out = &batch->out;
    if (string->decoded_size == 0)
        return 1;
    out->data[out->size++] = tag;
    out->size = (size_t)(write_varint(out->data + out->size, string->decoded_size) - out->data);
    if (!write_string(batch->is_base64, out->data + out->size, string))
        return 0;
    out->size += string->decoded_size;
    return 1;
}

static size_t field_size(size_t size)
{
    return size ? 1 + varint_size(size) + size : 0;
}

static int pass_headers(Text *text, Batch *batch)
{
    Out *out = &batch->out;
    int more;
    if (pass_null(text))
        return 1;
    if (!pass(text, '['))
        return 0;
    if (pass(text, ']'))
        return 1;
    do {
        String name, value;
        size_t size;
        if (!pass(text, '[') || !pass_string(text, &name) || !pass(text, ',') ||
            !pass_string(text, &value) || !pass(text, ']') || !measure(batch->is_base64, &name) ||
            !measure(batch->is_base64, &value))
            return 0;
        /* one without a name makes a command */
        if (name.decoded_size == 0 || ++batch->header_count > HEADERS_MAX)
            return 0;
        batch->metered_bytes += 2 + name.decoded_size + value.decoded_size;
        if (batch->metered_bytes > METERED_BYTES_MAX)
            return 0;
        size = field_size(name.decoded_size) + field_size(value.decoded_size);
        if (!room_for(out, 1 + VARINT_BYTES_MAX + size))
            return 0;
        out->data[out->size++] = TAG_BYTES(2);
        out->size = (size_t)(write_varint(out->data + out->size, size) - out->data);
        if (!put_bytes(batch, TAG_BYTES(1), &name) || !put_bytes(batch, TAG_BYTES(2), &value))
            return 0;
        more = pass_comma(text, ']');
    } while (more > 0);
    return more == 0;
}

/* Put what is known only at a record's end around its headers, which begin a GAP behind `begin`. */
static int end_record(Batch *batch, size_t begin, Number timestamp, String *body)
{
    Out *out = &batch->out;
    size_t headers_size = out->size - begin - GAP, size;
    byte *to;
    if (body->is_given && !measure(batch->is_base64, body))
        return 0;
    batch->metered_bytes += 8 + body->decoded_size;
    if (batch->metered_bytes > METERED_BYTES_MAX)
        return 0;
    size = headers_size + field_size(body->decoded_size);
    if (timestamp.is_given) {
        size += 1 + varint_size(timestamp.value);
        batch->timestamps_given++;
        if (batch->record_count == 0)
            batch->timestamp_first = timestamp;
        if (!batch->timestamp_max.is_given || timestamp.value > batch->timestamp_max.value)
            batch->timestamp_max = timestamp;
    }
    if (!room_for(out, 1 + VARINT_BYTES_MAX + body->decoded_size))
        return 0;
    to = out->data + begin;
    *to++ = TAG_BYTES(1);
    to = write_varint(to, size);
    if (timestamp.is_given) {
        *to++ = TAG_NUMBER(1);
        to = write_varint(to, timestamp.value);
    }
    memmove(to, out->data + begin + GAP, headers_size);
    out->size = (size_t)(to - out->data) + headers_size;
    batch->record_count++;
    return put_bytes(batch, TAG_BYTES(3), body);
}

static int is_named(const String *name, const char *wanted)
{
    return name->size == strlen(wanted) && memcmp(name->from, wanted, name->size) == 0;
}

static int pass_record(Text *text, Batch *batch)
{
    size_t begin = batch->out.size;
    Number timestamp = {0, 0};
    String body = {0}, name;
    int seen = 0, member, more = 1;
    if (batch->record_count == RECORDS_MAX || !room_for(&batch->out, GAP))
        return 0;
    memset(batch->out.data + begin, 0, GAP);
    batch->out.size += GAP;
    if (!pass(text, '{'))
        return 0;
    if (pass(text, '}'))
        return end_record(batch, begin, timestamp, &body);
    while (more > 0) {
        if (!pass_string(text, &name) || !pass(text, ':'))
            return 0;
        if (is_named(&name, "body")) {
            member = 1;
            if (!pass_null(text) && !pass_string(text, &body))
                return 0;
        } else if (is_named(&name, "headers")) {
            member = 2;
            if (!pass_headers(text, batch))
                return 0;
        } else if (is_named(&name, "timestamp")) {
            member = 4;
            if (!pass_null(text) && !pass_number(text, &timestamp))
                return 0;
        } else
            return 0;
        if (seen & member)
            return 0;
        seen |= member;
        more = pass_comma(text, '}');
    }
    return more == 0 && end_record(batch, begin, timestamp, &body);
}

static int pass_records(Text *text, Batch *batch)
{
    int more = 1;
    if (!pass(text, '['))
        return 0;
    while (more > 0) {
        if (!pass_record(text, batch))
            return 0;
        more = pass_comma(text, ']');
    }
    return more == 0;
}

static int pass_body(Text *text, Batch *batch, Number *match_seq_num, String *token)
{
    int seen = 0, member, more = 1;
    String name;
    if (!pass(text, '{'))
        return 0;
    while (more > 0) {
        if (!pass_string(text, &name) || !pass(text, ':'))
            return 0;
        if (is_named(&name, "records")) {
            member = 1;
            if (!(seen & member) && !pass_records(text, batch))
                return 0;
        } else if (is_named(&name, "match_seq_num")) {
            member = 2;
            if (!pass_null(text) && !pass_number(text, match_seq_num))
                return 0;
        } else if (is_named(&name, "fencing_token")) {
            member = 4;
            if (!pass_null(text) && (!pass_string(text, token) || token->is_escaped))
                return 0;
            if (token->size > TOKEN_BYTES_MAX)
                return 0;
        } else
            return 0;
        if (seen & member)
            return 0;
        seen |= member;
        more = pass_comma(text, '}');
    }
    pass_blanks(text);
    return more == 0 && text->at == text->end && (seen & 1);
}

static PyObject *number_or_none(Number number)
{
    if (number.is_given)
        return PyLong_FromUnsignedLongLong(number.value);
    Py_RETURN_NONE;
}

PyObject *encode_append(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Batch batch = {0};
    Text text;
    Number match_seq_num = {0, 0};
    String token = {0};
    PyObject *answer = NULL;
    char *body;
    Py_ssize_t size;
    (void)module;
    if (count != 2 || PyBytes_AsStringAndSize(given[0], &body, &size) < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "encode_append takes a body and a format");
        return NULL;
    }
    batch.is_base64 = PyObject_IsTrue(given[1]);
    if (batch.is_base64 < 0)
        return NULL;
    text.at = (const byte *)body;
    text.end = text.at + size;
    if ((size_t)size <= OUT_BYTES_MAX && room_for(&batch.out, (size_t)size + GAP) &&
        pass_body(&text, &batch, &match_seq_num, &token))
        answer = Py_BuildValue(
            "(y#nnNnNNs#)", (char *)batch.out.data, (Py_ssize_t)batch.out.size,
            (Py_ssize_t)batch.record_count, (Py_ssize_t)batch.metered_bytes,
            number_or_none(batch.timestamp_max), (Py_ssize_t)batch.timestamps_given,
            number_or_none(batch.timestamp_first), number_or_none(match_seq_num),
            (const char *)token.from, (Py_ssize_t)token.size);
    else
        answer = Py_NewRef(Py_None);
    PyMem_Free(batch.out.data);
    return answer;
}
