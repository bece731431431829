/* The part of a stored batch that a read has to look at. */
#include "core.h"
#include "stored.h"

typedef struct {
    uint64_t start_seq_num, count_max, metered_max, until, from;
    int has_until;
} Bounds;

/* What is left: where its bytes are, and what its placement says. */
typedef struct {
    size_t begin, end, count, metered_bytes;
    uint64_t first_seq_num, base_timestamp, last_timestamp;
} Part;

/* The order of the rules is that of `cut_steps` in Python: what ends a read is still in its part,
 * unless nothing more is asked for. */
static int cut(const Stored *stored, const Bounds *bounds, Part *part)
{
    Bytes bytes = {stored->data, stored->data + stored->size};
    uint64_t running = stored->base_timestamp, seq_num = stored->first_seq_num;
    memset(part, 0, sizeof *part);
    if (stored->record_count > RECORDS_MAX || seq_num > UINT64_MAX - RECORDS_MAX ||
        !is_plain(stored))
        return 0;
    for (; bytes.at < bytes.end && part->count < bounds->count_max; seq_num++) {
        uint64_t before = running;
        const byte *begin = bytes.at;
        Record record;
        if (!take_record(&bytes, &record))
            return 0;
        running = timestamp_of(stored, &record, running);
        if (seq_num < bounds->start_seq_num || running < bounds->from)
            continue;
        if (part->count++ == 0) {
            part->begin = (size_t)(begin - stored->data);
            part->first_seq_num = seq_num;
            part->base_timestamp = before;
        }
        part->end = (size_t)(bytes.at - stored->data);
        part->last_timestamp = running;
        if ((bounds->has_until && running >= bounds->until) ||
            record.metered_bytes > bounds->metered_max - part->metered_bytes) {
            part->metered_bytes += record.metered_bytes;
            break;
        }
        part->metered_bytes += record.metered_bytes;
    }
    return 1;
}

PyObject *cut_stored(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Bounds bounds = {0};
    Stored stored;
    Part part;
    int is_cut = 0;
    (void)module;
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "cut_stored takes 6 arguments");
        return NULL;
    }
    if (get_stored(given[0], &stored) && get_number(given[1], &bounds.start_seq_num) &&
        get_bound(given[2], &bounds.count_max) && get_bound(given[3], &bounds.metered_max) &&
        get_bound(given[4], &bounds.until) && get_number(given[5], &bounds.from)) {
        bounds.has_until = given[4] != Py_None;
        is_cut = cut(&stored, &bounds, &part);
    }
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        is_cut = 0;
    }
    if (PyErr_Occurred())
        return NULL;
    if (!is_cut)
        return Py_NewRef(Py_None);
    return Py_BuildValue("(nnKnnKK)", (Py_ssize_t)part.begin, (Py_ssize_t)part.end,
                         (unsigned long long)part.first_seq_num, (Py_ssize_t)part.count,
                         (Py_ssize_t)part.metered_bytes, (unsigned long long)part.base_timestamp,
                         (unsigned long long)part.last_timestamp);
}
