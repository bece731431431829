/* A thread that writes and syncs files without the interpreter's lock, in the order of its jobs.
 *
 * A job is made, and given back, by a thread that holds the lock; in between only the syncing thread
 * touches it. It keeps the objects whose bytes it writes. What is done is told by an eventfd, and by
 * `sync_wait`. A write or sync that fails ends everything: `failed` is called with the error, and
 * must not return; nothing behind it is written, and nothing is told done any more.
 */
#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <pthread.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define CAPSULE_NAME "svc_cluster._native._core.Syncs"
/* Parts of one call of the kernel; more take several. */
#define PARTS_MAX 512
/* Files of one job that are surely synced only once. */
#define FILES_MAX 64

typedef struct {
    Py_buffer buffer;
    int file;
    off_t offset;
} Write;

typedef struct Job {
    struct Job *next;
    size_t count, bytes;
    double write_seconds, sync_seconds;
    Write writes[];
} Job;

typedef struct {
    Job *first, *last;
} Jobs;

typedef struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t came, went;
    Jobs waiting, done;
    size_t open;
    int eventfd, is_closing, has_failed;
    PyObject *failed;
} Syncs;

static void join(Jobs *jobs, Job *job)
{
    job->next = NULL;
    if (jobs->last == NULL)
        jobs->first = job;
    else
        jobs->last->next = job;
    jobs->last = job;
}

static Job *leave(Jobs *jobs)
{
    Job *job = jobs->first;
    if (job != NULL) {
        jobs->first = job->next;
        if (jobs->first == NULL)
            jobs->last = NULL;
    }
    return job;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Write the parts one behind the other, going on after short writes. Returns 0 or an errno. */
static int write_all(int file, struct iovec *parts, int count, off_t offset)
{
    while (count > 0) {
        ssize_t written;
        if (parts->iov_len == 0) {
            parts++, count--;
            continue;
        }
        written = pwritev2(file, parts, count, offset, 0);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? errno : EIO;
        offset += written;
        for (; count > 0 && (size_t)written >= parts->iov_len; parts++, count--)
            written -= (ssize_t)parts->iov_len;
        if (count > 0) {
            parts->iov_base = (byte *)parts->iov_base + written;
            parts->iov_len -= (size_t)written;
        }
    }
    return 0;
}

static int write_job(const Job *job)
{
    struct iovec parts[PARTS_MAX];
    size_t at = 0;
    while (at < job->count) {
        const Write *first = &job->writes[at];
        off_t end = first->offset;
        int count = 0, failure;
        for (; at < job->count && count < PARTS_MAX; at++, count++) {
            const Write *write = &job->writes[at];
            if (write->file != first->file || write->offset != end)
                break;
            parts[count].iov_base = write->buffer.buf;
            parts[count].iov_len = (size_t)write->buffer.len;
            end += (off_t)write->buffer.len;
        }
        failure = write_all(first->file, parts, count, first->offset);
        if (failure)
            return failure;
    }
    return 0;
}

/* Each file once, in the order in which they were first written to; of very many some again. */
static int sync_job(const Job *job)
{
    int files[FILES_MAX];
    size_t at, known = 0, place;
    for (at = 0; at < job->count; at++) {
        int file = job->writes[at].file;
        for (place = known; place > 0 && files[place - 1] != file; place--)
            ;
        if (place > 0)
            continue;
        while (fdatasync(file) != 0)
            if (errno != EINTR)
                return errno;
        if (known < FILES_MAX)
            files[known++] = file;
    }
    return 0;
}

static int carry_out(Job *job)
{
    double begun = now(), written;
    int failure = write_job(job);
    if (failure)
        return failure;
    written = now();
    failure = sync_job(job);
    job->write_seconds = written - begun;
    job->sync_seconds = now() - written;
    return failure;
}

static void tell_failure(Syncs *syncs, int failure)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *told = PyObject_CallFunction(syncs->failed, "i", failure);
    if (told == NULL)
        PyErr_WriteUnraisable(syncs->failed);
    Py_XDECREF(told);
    PyGILState_Release(state);
}

static void *run(void *given)
{
    Syncs *syncs = given;
    uint64_t one = 1;
    Job *job;
    int failure = 0;
    pthread_mutex_lock(&syncs->lock);
    for (;;) {
        while ((job = leave(&syncs->waiting)) == NULL && !syncs->is_closing)
            pthread_cond_wait(&syncs->came, &syncs->lock);
        if (job == NULL)
            break;
        pthread_mutex_unlock(&syncs->lock);
        failure = carry_out(job);
        if (failure)
            tell_failure(syncs, failure);
        pthread_mutex_lock(&syncs->lock);
        join(&syncs->done, job);
        if (failure) {
            syncs->has_failed = 1;
            break;
        }
        syncs->open--;
        if (syncs->open == 0)
            pthread_cond_broadcast(&syncs->went);
        if (write(syncs->eventfd, &one, sizeof one) < 0) {
            /* it is full: who reads it has been told long since */
        }
    }
    pthread_cond_broadcast(&syncs->went);
    pthread_mutex_unlock(&syncs->lock);
    return NULL;
}

static void free_job(Job *job)
{
    size_t at;
    for (at = 0; at < job->count; at++)
        PyBuffer_Release(&job->writes[at].buffer);
    PyMem_Free(job);
}

static void free_jobs(Jobs *jobs)
{
    Job *job;
    while ((job = leave(jobs)) != NULL)
        free_job(job);
}

/* Carry out what waits, and end the thread. With the interpreter's lock. */
static void end(Syncs *syncs)
{
    if (syncs->is_closing)
        return;
    pthread_mutex_lock(&syncs->lock);
    syncs->is_closing = 1;
    pthread_cond_signal(&syncs->came);
    pthread_mutex_unlock(&syncs->lock);
    Py_BEGIN_ALLOW_THREADS
    pthread_join(syncs->thread, NULL);
    Py_END_ALLOW_THREADS
}

static void release(PyObject *capsule)
{
    Syncs *syncs = PyCapsule_GetPointer(capsule, CAPSULE_NAME);
    end(syncs);
    free_jobs(&syncs->waiting);
    free_jobs(&syncs->done);
    pthread_cond_destroy(&syncs->came);
    pthread_cond_destroy(&syncs->went);
    pthread_mutex_destroy(&syncs->lock);
    Py_XDECREF(syncs->failed);
    PyMem_Free(syncs);
}

PyObject *sync_open(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Syncs *syncs;
    PyObject *capsule;
    long eventfd;
    (void)module;
    if (count != 2 || !PyCallable_Check(given[1])) {
        PyErr_SetString(PyExc_TypeError, "sync_open takes an eventfd and who is told of failures");
        return NULL;
    }
    eventfd = PyLong_AsLong(given[0]);
    if (eventfd == -1 && PyErr_Occurred())
        return NULL;
    syncs = PyMem_Calloc(1, sizeof *syncs);
    if (syncs == NULL)
        return PyErr_NoMemory();
    syncs->eventfd = (int)eventfd;
    pthread_mutex_init(&syncs->lock, NULL);
    pthread_cond_init(&syncs->came, NULL);
    pthread_cond_init(&syncs->went, NULL);
    if (pthread_create(&syncs->thread, NULL, run, syncs) != 0) {
        PyMem_Free(syncs);
        PyErr_SetString(PyExc_OSError, "no thread can be started");
        return NULL;
    }
    syncs->failed = Py_NewRef(given[1]);
    capsule = PyCapsule_New(syncs, CAPSULE_NAME, release);
    if (capsule == NULL)
        end(syncs); /* what it holds is lost, as is the process */
    return capsule;
}

static int get_write(PyObject *given, Write *write)
{
    PyObject *data;
    long file;
    long long offset;
    if (!PyTuple_Check(given) || PyTuple_Size(given) != 3) {
        PyErr_SetString(PyExc_TypeError, "a write is a file, an offset and bytes");
        return 0;
    }
    file = PyLong_AsLong(PyTuple_GetItem(given, 0));
    offset = PyLong_AsLongLong(PyTuple_GetItem(given, 1));
    if (PyErr_Occurred())
        return 0;
    data = PyTuple_GetItem(given, 2);
    write->file = (int)file;
    write->offset = (off_t)offset;
    return PyObject_GetBuffer(data, &write->buffer, PyBUF_SIMPLE) == 0;
}

PyObject *sync_submit(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Syncs *syncs;
    Job *job;
    Py_ssize_t size;
    int is_open;
    (void)module;
    if (count != 2 || !PyList_Check(given[1])) {
        PyErr_SetString(PyExc_TypeError, "sync_submit takes what was opened and a list of writes");
        return NULL;
    }
    syncs = PyCapsule_GetPointer(given[0], CAPSULE_NAME);
    if (syncs == NULL)
        return NULL;
    size = PyList_Size(given[1]);
    job = PyMem_Calloc(1, sizeof *job + (size_t)size * sizeof *job->writes);
    if (job == NULL)
        return PyErr_NoMemory();
    for (; job->count < (size_t)size; job->count++) {
        Write *write = &job->writes[job->count];
        if (!get_write(PyList_GetItem(given[1], (Py_ssize_t)job->count), write)) {
            free_job(job);
            return NULL;
        }
        job->bytes += (size_t)write->buffer.len;
    }
    pthread_mutex_lock(&syncs->lock);
    is_open = !(syncs->is_closing || syncs->has_failed);
    if (is_open) {
        join(&syncs->waiting, job);
        syncs->open++;
        pthread_cond_signal(&syncs->came);
    }
    pthread_mutex_unlock(&syncs->lock);
    if (is_open)
        return Py_NewRef(Py_None);
    free_job(job);
    PyErr_SetString(PyExc_ValueError, "the thread has ended");
    return NULL;
}

PyObject *sync_take(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Syncs *syncs;
    Jobs done;
    Job *job;
    PyObject *told;
    (void)module;
    if (count != 1) {
        PyErr_SetString(PyExc_TypeError, "sync_take takes what was opened");
        return NULL;
    }
    syncs = PyCapsule_GetPointer(given[0], CAPSULE_NAME);
    if (syncs == NULL)
        return NULL;
    pthread_mutex_lock(&syncs->lock);
    done = syncs->done;
    memset(&syncs->done, 0, sizeof syncs->done);
    if (syncs->has_failed)
        memset(&done, 0, sizeof done); /* left as they are: nothing is told done any more */
    pthread_mutex_unlock(&syncs->lock);
    told = PyList_New(0);
    while ((job = leave(&done)) != NULL) {
        PyObject *row = NULL;
        if (told != NULL)
            row = Py_BuildValue("(ddn)", job->write_seconds, job->sync_seconds,
                                (Py_ssize_t)job->bytes);
        free_job(job);
        if (told != NULL && (row == NULL || PyList_Append(told, row) < 0))
            Py_CLEAR(told);
        Py_XDECREF(row);
    }
    return told;
}

PyObject *sync_wait(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Syncs *syncs;
    int has_failed;
    (void)module;
    if (count != 1) {
        PyErr_SetString(PyExc_TypeError, "sync_wait takes what was opened");
        return NULL;
    }
    syncs = PyCapsule_GetPointer(given[0], CAPSULE_NAME);
    if (syncs == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&syncs->lock);
    while (syncs->open > 0 && !syncs->has_failed)
        pthread_cond_wait(&syncs->went, &syncs->lock);
    has_failed = syncs->has_failed;
    pthread_mutex_unlock(&syncs->lock);
    Py_END_ALLOW_THREADS
    if (!has_failed)
        return Py_NewRef(Py_None);
    PyErr_SetString(PyExc_RuntimeError, "a write or a sync has failed");
    return NULL;
}

PyObject *sync_close(PyObject *module, PyObject *const *given, Py_ssize_t count)
{
    Syncs *syncs;
    (void)module;
    if (count != 1) {
        PyErr_SetString(PyExc_TypeError, "sync_close takes what was opened");
        return NULL;
    }
    syncs = PyCapsule_GetPointer(given[0], CAPSULE_NAME);
    if (syncs == NULL)
        return NULL;
    end(syncs);
    Py_CLEAR(syncs->failed); /* its owner, mostly, which would never be let go of otherwise */
    return Py_NewRef(Py_None);
}
