/* Records of stored batches, as a read returns them: JSON in both formats, and protobuf. */
#include "core.h"
#include "stored.h"

enum { FORM_PROTO, FORM_BASE64, FORM_UTF8 };
enum { AT_END, AT_LIMIT, IS_FULL };

/* Of one answer, as `codec/batch_codec.py` has them. */
#define RUN_BYTES_MAX ((size_t)256 * 1024)
#define RUN_HEADERS_MAX ((size_t)2048)
#define NUMBER_CHARS_MAX ((size_t)20)

typedef struct {
    Out out;
    int form;
    uint64_t start_seq_num, count_max, metered_max, until, from;
    int has_until;
    size_t record_count, metered_bytes, header_count;
    uint64_t first_seq_num, end_seq_num;
} Run;

static void put_number(Out *out, uint64_t value)
{
    byte digits[NUMBER_CHARS_MAX];
    size_t count = 0;
    do
        digits[NUMBER_CHARS_MAX - ++count] = (byte)('0' + value % 10);
    while (value /= 10);
    put(out, digits + NUMBER_CHARS_MAX - count, count);
}

static int put_base64(Out *out, Bytes bytes)
{
    byte *to;
    size_t rest;
    if (!room_for(out, (size_of(bytes) + 2) / 3 * 4))
        return 0;
    to = out->data + out->size;
    for (; size_of(bytes) >= 3; bytes.at += 3, to += 4) {
        uint32_t word = (uint32_t)bytes.at[0] << 16 | (uint32_t)bytes.at[1] << 8 | bytes.at[2];
        to[0] = BASE64_DIGITS[word >> 18];
        to[1] = BASE64_DIGITS[word >> 12 & 63];
        to[2] = BASE64_DIGITS[word >> 6 & 63];
        to[3] = BASE64_DIGITS[word & 63];
    }
    rest = size_of(bytes);
    if (rest) {
        uint32_t word = (uint32_t)bytes.at[0] << 16 | (rest == 2 ? (uint32_t)bytes.at[1] << 8 : 0);
        to[0] = BASE64_DIGITS[word >> 18];
        to[1] = BASE64_DIGITS[word >> 12 & 63];
        to[2] = rest == 2 ? BASE64_DIGITS[word >> 6 & 63] : '=';
        to[3] = '=';
        to += 4;
    }
    out->size = (size_t)(to - out->data);
    return 1;
}

static void put_escape(Out *out, byte character)
{
    static const char plain[] = "\"\\\b\f\n\r\t", named[] = "\"\\bfnrt", hex[] = "0123456789abcdef";
    const char *found = character ? strchr(plain, character) : NULL;
    if (found != NULL) {
        byte escape[2] = {'\\', (byte)named[found - plain]};
        put(out, escape, 2);
    } else {
        byte escape[6] = {'\\', 'u', '0', '0', (byte)hex[character >> 4], (byte)hex[character & 15]};
        put(out, escape, 6);
    }
}

static int is_escaped(byte character)
{
    return character < 0x20 || character == '"' || character == '\\';
}

/* What is no UTF-8 is not plain: what stands in its place is not decided here. */
static int put_utf8(Out *out, Bytes bytes)
{
    while (bytes.at < bytes.end) {
        const byte *from = bytes.at;
        for (;;) {
            size_t size;
            while (size_of(bytes) >= 8 && !is_odd(word_at(bytes.at)))
                bytes.at += 8;
            if (bytes.at == bytes.end || is_escaped(*bytes.at))
                break;
            size = character_size(bytes.at, size_of(bytes));
            if (size == 0)
                return 0;
            bytes.at += size;
        }
        if (!room_for(out, (size_t)(bytes.at - from) + 6))
            return 0;
        put(out, from, (size_t)(bytes.at - from));
        if (bytes.at < bytes.end)
            put_escape(out, *bytes.at++);
    }
    return 1;
}

static int put_chars(Out *out, const char *chars)
{
    size_t size = strlen(chars);
    if (!room_for(out, size))
        return 0;
    put(out, chars, size);
    return 1;
}

static int put_string(Run *run, Bytes bytes)
{
    Out *out = &run->out;
    if (!put_chars(out, "\"") ||
        !(run->form == FORM_UTF8 ? put_utf8(out, bytes) : put_base64(out, bytes)))
        return 0;
    return put_chars(out, "\"");
}

static int put_json(Run *run, const Record *record, uint64_t seq_num, uint64_t timestamp)
{
    Out *out = &run->out;
    Bytes headers = record->headers, name, value;
    if (!put_chars(out, run->record_count ? ",{\"seq_num\":" : "{\"seq_num\":") ||
        !room_for(out, NUMBER_CHARS_MAX))
        return 0;
    put_number(out, seq_num);
    if (!put_chars(out, ",\"timestamp\":") || !room_for(out, NUMBER_CHARS_MAX))
        return 0;
    put_number(out, timestamp);
    if (record->header_count) {
        const char *before = ",\"headers\":[[";
        while (headers.at < headers.end) {
            if (!take_header(&headers, &name, &value) || !put_chars(out, before) ||
                !put_string(run, name) || !put_chars(out, ",") || !put_string(run, value))
                return 0;
            before = "],[";
        }
        if (!put_chars(out, "]]"))
            return 0;
    }
    if (record->body.at < record->body.end &&
        (!put_chars(out, ",\"body\":") || !put_string(run, record->body)))
        return 0;
    return put_chars(out, "}");
}

static int put_proto(Run *run, const Record *record, uint64_t seq_num, uint64_t timestamp)
{
    Out *out = &run->out;
    Bytes headers = record->headers, header;
    size_t body_size = size_of(record->body), size = size_of(headers);
    byte *to;
    /* zeros are not written; a header has another tag here, and is else the same */
    size += (seq_num ? 1 + varint_size(seq_num) : 0) + (timestamp ? 1 + varint_size(timestamp) : 0) +
            (body_size ? 1 + varint_size(body_size) + body_size : 0);
    if (!room_for(out, 1 + VARINT_BYTES_MAX + size))
        return 0;
    to = out->data + out->size;
    *to++ = TAG_BYTES(1);
    to = write_varint(to, size);
    if (seq_num) {
        *to++ = TAG_NUMBER(1);
        to = write_varint(to, seq_num);
    }
    if (timestamp) {
        *to++ = TAG_NUMBER(2);
        to = write_varint(to, timestamp);
    }
    while (headers.at < headers.end) {
        const byte *begin = headers.at;
        if (!take_bytes(&headers, TAG_BYTES(2), &header))
            return 0;
        memcpy(to, begin, (size_t)(headers.at - begin));
        *to = TAG_BYTES(3);
        to += headers.at - begin;
    }
    if (body_size) {
        *to++ = TAG_BYTES(4);
        to = write_varint(to, body_size);
        memcpy(to, record->body.at, body_size);
        to += body_size;
    }
    out->size = (size_t)(to - out->data);
    return 1;
}

/* Take what a read may return of a batch: an AT_END, AT_LIMIT or IS_FULL; -1: it is not plain. The
 * order of the rules is that of `cut_steps` and `stamp` in Python. */
static int take_batch(Run *run, const Stored *stored)
{
    Bytes bytes = {stored->data, stored->data + stored->size};
    uint64_t running = stored->base_timestamp, seq_num = stored->first_seq_num;
    if (stored->record_count > RECORDS_MAX || seq_num > UINT64_MAX - RECORDS_MAX)
        return -1;
    if (seq_num + stored->record_count <= run->start_seq_num)
        return AT_END;
    if (!is_plain(stored))
        return -1;
    for (; bytes.at < bytes.end; seq_num++) {
        Record record;
        if (!take_record(&bytes, &record))
            return -1;
        running = timestamp_of(stored, &record, running);
        if (seq_num < run->start_seq_num || running < run->from)
            continue;
        if (run->record_count == run->count_max || run->metered_max - run->metered_bytes < 8 ||
            (run->has_until && running >= run->until))
            return AT_LIMIT;
        if (run->record_count == RECORDS_MAX)
            return IS_FULL;
        if (run->record_count && (run->metered_bytes + record.metered_bytes > RUN_BYTES_MAX ||
                                  run->header_count + record.header_count > RUN_HEADERS_MAX))
            return IS_FULL;
        if (record.metered_bytes > RUN_BYTES_MAX || record.header_count > RUN_HEADERS_MAX)
            return -1; /* one that is long is encoded in steps */
        if (record.metered_bytes > run->metered_max - run->metered_bytes)
            return AT_LIMIT;
        if (!(run->form == FORM_PROTO ? put_proto : put_json)(run, &record, seq_num, running))
            return -1;
        if (run->record_count == 0)
            run->first_seq_num = seq_num;
        run->record_count++;
        run->metered_bytes += record.metered_bytes;
        run->header_count += record.header_count;
        run->end_seq_num = seq_num + 1;
    }
    return AT_END;
}

static int take_batches(Run *run, PyObject *batches)
{
    Py_ssize_t place, count;
    int outcome = AT_END;
    if (!PyTuple_Check(batches)) {
        PyErr_SetString(PyExc_TypeError, "stored batches are given as a tuple");
        return -1;
    }
    count = PyTuple_Size(batches);
    for (place = 0; place < count && outcome == AT_END; place++) {
        Stored stored;
        if (!get_stored(PyTuple_GetItem(batches, place), &stored))
            return -1;
        outcome = take_batch(run, &stored);
    }
    return outcome;
}

PyObject *encode_read(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Run run = {0};
    PyObject *answer = NULL;
    uint64_t form;
    int outcome = -1;
    (void)module;
    if (count != 7) {
        PyErr_SetString(PyExc_TypeError, "encode_read takes 7 arguments");
        return NULL;
    }
    if (get_number(given[1], &form) && get_number(given[2], &run.start_seq_num) &&
        get_bound(given[3], &run.count_max) && get_bound(given[4], &run.metered_max) &&
        get_bound(given[5], &run.until) && get_number(given[6], &run.from)) {
        run.form = (int)form;
        run.has_until = given[5] != Py_None;
        if (form <= FORM_UTF8)
            outcome = take_batches(&run, given[0]);
    }
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        outcome = -1;
    }
    if (PyErr_Occurred())
        answer = NULL;
    else if (outcome < 0)
        answer = Py_NewRef(Py_None);
    else
        answer = Py_BuildValue("(y#nnKKi)", run.out.data ? (char *)run.out.data : "",
                               (Py_ssize_t)run.out.size, (Py_ssize_t)run.record_count,
                               (Py_ssize_t)run.metered_bytes,
                               (unsigned long long)run.first_seq_num,
                               (unsigned long long)run.end_seq_num, outcome);
    PyMem_Free(run.out.data);
    return answer;
}
