/* A power-loss ledger, loaded with LD_PRELOAD.
 *
 * kill -9 never loses what the page cache holds, so it can never find a missing fsync. This shim
 * can: before every change to a file or a name under LEDGER_ROOT it writes an undo record to
 * LEDGER_STATE/<pid>.undo, and after every successful fsync or fdatasync a mark that makes the
 * records before it void. When the processes have been killed, tests/e2e/power.py takes back what
 * no mark covers, as a power cut would.
 *
 * Rules of the model
 * - An fsync or fdatasync of a file covers the writes to it that had returned when the sync began.
 * - Names (create, rename, unlink, link, mkdir) are covered by an fsync of their directory only.
 * - sync_file_range is not durability. sync and syncfs are not modelled (counted as nothing).
 * - O_SYNC, O_DSYNC and RWF_DSYNC writes are synced as they return.
 * - Shared writable mappings, and copies inside the kernel, of tracked files are refused: their
 *   writes could not be seen. stdio's own writes (FILE*) are not seen either; RocksDB uses them for
 *   its text log at most.
 *
 * Environment
 *   LEDGER_ROOT             real path; everything below it is tracked. Unset: the shim does nothing.
 *   LEDGER_STATE            real path of a directory on the same file system, outside LEDGER_ROOT.
 *   LEDGER_IGNORE_SYNC=1    syncs report success and do nothing: the control that must lose records.
 *   LEDGER_FAIL_SYNC_AFTER=n   every tracked sync after the first n fails with EIO, and what it
 *                           should have written never becomes durable, whatever is synced later.
 *   LEDGER_FAIL_SYNC_MATCH=s   ... only for files whose path contains s.
 *   LEDGER_SYNC_DELAY_US=n  every tracked sync takes this much longer.
 *   LEDGER_CONTROL=path     a file of `struct control` that another process writes while we run.
 * A file LEDGER_STATE/fail_sync makes syncs of paths containing its first line fail from then on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifndef RWF_DSYNC
#define RWF_DSYNC 0x2
#endif
#ifndef RWF_SYNC
#define RWF_SYNC 0x4
#endif
#define FALLOC_KEEP_SIZE 0x01

/* Undo log records. The layout is read by power.py: keep both in step. */
enum kind {
    K_WRITE = 1,   /* ino, off, len, old_size; data: the old bytes of [off, min(off+len, old_size)) */
    K_RESIZE = 2,  /* ino, off = new size, old_size; data: the bytes cut off */
    K_CREATE = 3,  /* dir; path_a */
    K_UNLINK = 4,  /* dir, ino; path_a; path_b = kept link */
    K_RENAME = 5,  /* dir = directory of the new name; path_a old, path_b new, path_c kept link or "" */
    K_LINK = 6,    /* dir; path_a = new name */
    K_MKDIR = 7,   /* dir, path_a; ino is not known yet */
    K_RMDIR = 8,   /* dir, path_a */
    K_SYNC = 9,    /* ino (file or directory), upto: records of it up to this time are void */
    K_POISON = 10, /* ino, upto: records up to this time that are not void stay so for ever */
    K_FORGET = 11, /* ino: the inode is gone; its records are void */
};

struct header {
    uint32_t magic;
    uint32_t kind;
    uint64_t time_ns;
    uint64_t dev;
    uint64_t ino;
    uint64_t dir_ino;
    uint64_t off;
    uint64_t len;
    uint64_t old_size;
    uint64_t upto;
    uint32_t path_a, path_b, path_c; /* lengths; the paths follow the header, then the data */
    uint32_t pad;
    uint64_t data;
};
#define MAGIC 0x4c45444aU

struct kept { /* a removed name whose file is still needed to undo the removal */
    struct kept *next;
    uint64_t dir_ino, time_ns;
    char path[];
};

static char root[PATH_MAX], state_dir[PATH_MAX];
static size_t root_len;
static int ignore_sync;
static long fail_after = -1;
static char fail_match[PATH_MAX];
static long sync_delay_us;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int undo_fd = -1;
static uint64_t last_time;
static long sync_count;
static struct kept *kept_list;

/* Orders from outside, shared memory. The layout is known to tests/chaos/control.py. */
struct control {
    uint64_t calls;           /* counts tracked changes and syncs, from 1 */
    uint64_t kill_at;         /* SIGKILL instead of the call of this number; 0: never */
    int64_t clock_offset_ns;  /* added to the wall clock that the interpreter reads */
    uint64_t sync_delay_us;   /* every tracked sync takes this much longer */
    uint64_t fail_sync;       /* 1: tracked syncs fail, as with LEDGER_FAIL_SYNC_AFTER */
    uint64_t space;           /* 0: real; else 1 + the bytes that files may still grow by */
    uint64_t trace;           /* 1: every counted call is a line in LEDGER_STATE/trace */
    uint64_t clock_reads;     /* how often the interpreter read the wall clock */
    char last[448];           /* the call that SIGKILL replaced */
};
static struct control *control;

#define FD_MAX 65536
enum { FD_UNKNOWN = 0, FD_TRACKED = 1, FD_OTHER = 2 };
static unsigned char fd_state[FD_MAX];
static int fd_reader[FD_MAX]; /* a reading descriptor of the same file, plus one; 0: none yet */

static void die(const char *what) {
    char line[256];
    int n = snprintf(line, sizeof line, "ledger: %s: %s\n", what, strerror(errno));
    syscall(SYS_write, 2, line, (size_t)n);
    syscall(SYS_exit_group, 97);
}

/* ---- the wall clock as the interpreter reads it; libraries keep the true one, because what they
 * wait for with it ends by the kernel's clock ------------------------------------------------- */

static uintptr_t code_from, code_to;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

static int look_at_object(struct dl_phdr_info *info, size_t size, void *wanted) {
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        uintptr_t to = from + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X)) continue;
        if ((uintptr_t)wanted < from || (uintptr_t)wanted >= to) continue;
        code_from = from;
        code_to = to;
        return 1;
    }
    return 0;
}

static void find_interpreter(void) {
    void *symbol = dlsym(RTLD_DEFAULT, "PyEval_EvalCode");
    if (symbol != NULL) dl_iterate_phdr(look_at_object, symbol);
}

int clock_gettime(clockid_t id, struct timespec *out) {
    uintptr_t caller = (uintptr_t)__builtin_return_address(0);
    if (real_clock_gettime == NULL)
        real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT,
                                                                          "clock_gettime");
    int result = real_clock_gettime(id, out);
    if (result != 0 || id != CLOCK_REALTIME || control == NULL) return result;
    if (caller < code_from || caller >= code_to) return result;
    __atomic_add_fetch(&control->clock_reads, 1, __ATOMIC_SEQ_CST);
    int64_t now = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec + control->clock_offset_ns;
    out->tv_sec = now / 1000000000;
    out->tv_nsec = now % 1000000000;
    return 0;
}

/* ---- counted calls ------------------------------------------------------------------------- */

static void append_trace(const char *line) {
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/trace", state_dir);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                          0600);
    if (fd < 0) return;
    if (syscall(SYS_write, fd, line, strlen(line)) < 0) die("cannot write the trace");
    syscall(SYS_close, fd);
}

/* Before a tracked call: count it, name it, and die here if this is the place. */
static void point(const char *call, const char *path, int fd) {
    if (control == NULL) return;
    uint64_t number = __atomic_add_fetch(&control->calls, 1, __ATOMIC_SEQ_CST);
    int dies = control->kill_at != 0 && number == control->kill_at;
    if (!dies && !control->trace) return;
    char link[64], found[PATH_MAX], line[PATH_MAX + 64];
    if (path == NULL) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, found, sizeof found - 1);
        found[n > 0 ? n : 0] = 0;
        path = found;
    }
    if (strncmp(path, root, root_len) == 0) path += root_len;
    snprintf(line, sizeof line, "%llu %s %s\n", (unsigned long long)number, call, path);
    if (control->trace) append_trace(line);
    if (!dies) return;
    snprintf(control->last, sizeof control->last, "%.*s", (int)sizeof control->last - 1, line);
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;) syscall(SYS_pause);
}

/* Whether a file may grow by this much; what is granted is gone. */
static int grows(uint64_t bytes) {
    if (control == NULL || bytes == 0 || control->space == 0) return 1;
    if (control->space - 1 < bytes) { errno = ENOSPC; return 0; }
    control->space -= bytes;
    return 1;
}

static uint64_t growth(const struct stat *st, uint64_t off, uint64_t len) {
    uint64_t size = (uint64_t)st->st_size;
    return off + len > size ? off + len - (off > size ? off : size) : 0;
}

static void limit_space(struct statvfs *out) {
    if (control == NULL || control->space == 0 || out->f_frsize == 0) return;
    fsblkcnt_t blocks = (control->space - 1) / out->f_frsize;
    if (blocks < out->f_bavail) out->f_bavail = out->f_bfree = blocks;
}
#define STATVFS(NAME, REAL, TYPE, ARG_TYPE)                                        \
    int NAME(ARG_TYPE at, struct TYPE *out) {                                      \
        static int (*real)(ARG_TYPE, struct TYPE *);                               \
        if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, REAL);                \
        int result = real(at, out);                                                \
        if (result == 0) limit_space((struct statvfs *)out);                       \
        return result;                                                             \
    }
STATVFS(statvfs, "statvfs", statvfs, const char *)
STATVFS(fstatvfs, "fstatvfs", statvfs, int)
STATVFS(statvfs64, "statvfs64", statvfs64, const char *)
STATVFS(fstatvfs64, "fstatvfs64", statvfs64, int)

static void after_fork(void) {
    undo_fd = -1;
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&lock, &fresh, sizeof lock);
}

__attribute__((constructor)) static void begin(void) {
    const char *value = getenv("LEDGER_ROOT"), *state = getenv("LEDGER_STATE");
    if (value == NULL || state == NULL || value[0] != '/') return;
    snprintf(state_dir, sizeof state_dir, "%s", state);
    snprintf(root, sizeof root, "%s", value);
    if ((value = getenv("LEDGER_IGNORE_SYNC")) != NULL) ignore_sync = value[0] == '1';
    if ((value = getenv("LEDGER_FAIL_SYNC_AFTER")) != NULL) fail_after = atol(value);
    if ((value = getenv("LEDGER_FAIL_SYNC_MATCH")) != NULL)
        snprintf(fail_match, sizeof fail_match, "%s", value);
    if ((value = getenv("LEDGER_SYNC_DELAY_US")) != NULL) sync_delay_us = atol(value);
    if ((value = getenv("LEDGER_CONTROL")) != NULL) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, value, O_RDWR | O_CLOEXEC, 0);
        if (fd < 0) die("cannot open the control file");
        void *at = (void *)syscall(SYS_mmap, NULL, sizeof *control, PROT_READ | PROT_WRITE,
                                   MAP_SHARED, fd, 0L);
        if (at == MAP_FAILED) die("cannot map the control file");
        syscall(SYS_close, fd);
        control = at;
    }
    find_interpreter();
    pthread_atfork(NULL, NULL, after_fork);
    root_len = strlen(root); /* last: from here on the shim is live */
}

static int under_root(const char *path) {
    return root_len > 0 && strncmp(path, root, root_len) == 0 &&
           (path[root_len] == '/' || path[root_len] == 0);
}

/* The absolute path of (dirfd, path), without resolving links. Returns 1 if it is tracked. */
static int tracked_path(int dirfd, const char *path, char out[PATH_MAX]) {
    if (root_len == 0 || path == NULL) return 0;
    if (path[0] == '/') {
        snprintf(out, PATH_MAX, "%s", path);
    } else {
        char base[PATH_MAX], link[64];
        ssize_t n;
        if (dirfd == AT_FDCWD) {
            n = syscall(SYS_getcwd, base, sizeof base);
            if (n <= 0) return 0;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", dirfd);
            n = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
            if (n <= 0) return 0;
            base[n] = 0;
        }
        if (path[0] == '.' && path[1] == '/') path += 2;
        if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return 0;
    }
    return under_root(out);
}

/* Whether the descriptor is a file or directory below the root; fills `st` when it is. */
static int tracked_fd(int fd, struct stat *st) {
    if (root_len == 0 || fd < 0) return 0;
    if (fd < FD_MAX && fd_state[fd] == FD_OTHER) return 0;
    if (fstat(fd, st) != 0 || !(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode))) return 0;
    if (fd < FD_MAX && fd_state[fd] == FD_TRACKED) return 1;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    int is_tracked = under_root(path);
    if (fd < FD_MAX) fd_state[fd] = is_tracked ? FD_TRACKED : FD_OTHER;
    return is_tracked;
}

static void forget_fd(int fd) {
    if (root_len == 0 || fd < 0 || fd >= FD_MAX) return;
    fd_state[fd] = FD_UNKNOWN;
    int reader = __atomic_exchange_n(&fd_reader[fd], 0, __ATOMIC_SEQ_CST);
    if (reader > 0) syscall(SYS_close, reader - 1);
}

static uint64_t now_ns(void) { /* strictly increasing in this process; call with the lock held */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t value = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    if (value <= last_time) value = last_time + 1;
    last_time = value;
    return value;
}

static uint64_t parent_ino(const char *path, uint64_t *dev) {
    char dir[PATH_MAX];
    struct stat st;
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash == NULL) return 0;
    *slash = 0;
    if (stat(dir, &st) != 0) return 0;
    if (dev != NULL) *dev = st.st_dev;
    return st.st_ino;
}

/* Write one record in one system call. Call with the lock held. Returns its time. */
static uint64_t record(struct header *h, const char *a, const char *b, const char *c,
                       const void *data, size_t data_len) {
    if (undo_fd < 0) {
        char path[PATH_MAX + 32];
        snprintf(path, sizeof path, "%s/%d.undo", state_dir, (int)getpid());
        undo_fd = (int)syscall(SYS_openat, AT_FDCWD, path,
                               O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (undo_fd < 0) die("cannot open the undo log");
        int high = (int)syscall(SYS_fcntl, undo_fd, F_DUPFD_CLOEXEC, 3);
        if (high >= 0) {
            syscall(SYS_close, undo_fd);
            undo_fd = high;
        }
    }
    h->magic = MAGIC;
    h->time_ns = now_ns();
    h->path_a = a ? (uint32_t)strlen(a) : 0;
    h->path_b = b ? (uint32_t)strlen(b) : 0;
    h->path_c = c ? (uint32_t)strlen(c) : 0;
    h->data = data_len;
    struct iovec parts[5] = {{h, sizeof *h}, {(void *)a, h->path_a}, {(void *)b, h->path_b},
                             {(void *)c, h->path_c}, {(void *)data, data_len}};
    ssize_t want = (ssize_t)(sizeof *h + h->path_a + h->path_b + h->path_c + data_len);
    if (syscall(SYS_writev, undo_fd, parts, 5) != want) die("cannot write the undo log");
    return h->time_ns;
}

/* The bytes [off, off+len) of the file; the caller frees them. */
static void *old_bytes(int fd, uint64_t off, size_t len) {
    char *buffer = malloc(len ? len : 1);
    if (buffer == NULL) die("no memory");
    int reader = fd < FD_MAX ? fd_reader[fd] - 1 : -1;
    int close_it = 0;
    if (reader < 0) {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        reader = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
        if (reader < 0) die("cannot reopen a file for reading");
        if (fd < FD_MAX) fd_reader[fd] = reader + 1; else close_it = 1;
    }
    size_t done = 0;
    while (done < len) {
        ssize_t n = syscall(SYS_pread64, reader, buffer + done, len - done, off + done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) die("cannot read old bytes");
        if (n == 0) { memset(buffer + done, 0, len - done); break; }
        done += (size_t)n;
    }
    if (close_it) syscall(SYS_close, reader);
    return buffer;
}

/* Before `len` bytes at `off` change. Call with the lock held. */
static void before_write(int fd, const struct stat *st, uint64_t off, uint64_t len) {
    uint64_t size = (uint64_t)st->st_size;
    uint64_t saved = off >= size ? 0 : (off + len > size ? size - off : len);
    void *data = saved ? old_bytes(fd, off, saved) : NULL;
    struct header h = {.kind = K_WRITE, .dev = st->st_dev, .ino = st->st_ino, .off = off,
                       .len = len, .old_size = size};
    record(&h, NULL, NULL, NULL, data, saved);
    free(data);
}

static void before_resize(int fd, const struct stat *st, uint64_t new_size) {
    uint64_t size = (uint64_t)st->st_size;
    if (new_size == size) return;
    uint64_t saved = new_size < size ? size - new_size : 0;
    void *data = saved ? old_bytes(fd, new_size, saved) : NULL;
    struct header h = {.kind = K_RESIZE, .dev = st->st_dev, .ino = st->st_ino, .off = new_size,
                       .old_size = size};
    record(&h, NULL, NULL, NULL, data, saved);
    free(data);
}

static uint64_t position(int fd, const struct stat *st) {
    long flags = syscall(SYS_fcntl, fd, F_GETFL);
    if (flags & O_APPEND) return (uint64_t)st->st_size;
    return (uint64_t)syscall(SYS_lseek, fd, 0, SEEK_CUR);
}

static void mark_synced(const struct stat *st, uint64_t upto) {
    struct header h = {.kind = K_SYNC, .dev = st->st_dev, .ino = st->st_ino, .upto = upto};
    record(&h, NULL, NULL, NULL, NULL, 0);
    if (!S_ISDIR(st->st_mode)) return;
    for (struct kept **at = &kept_list; *at != NULL;) { /* removals are final now */
        struct kept *entry = *at;
        if (entry->dir_ino != st->st_ino || entry->time_ns > upto) { at = &entry->next; continue; }
        struct stat gone;
        if (stat(entry->path, &gone) == 0 && gone.st_nlink == 1) {
            struct header f = {.kind = K_FORGET, .dev = gone.st_dev, .ino = gone.st_ino};
            record(&f, NULL, NULL, NULL, NULL, 0);
        }
        syscall(SYS_unlinkat, AT_FDCWD, entry->path, 0);
        *at = entry->next;
        free(entry);
    }
}

static ssize_t written(int fd, const struct stat *st, ssize_t result, int synced) {
    long flags = synced ? O_DSYNC : syscall(SYS_fcntl, fd, F_GETFL);
    if (result >= 0 && (flags & O_DSYNC) && !ignore_sync) { /* O_SYNC contains O_DSYNC */
        int saved = errno;
        mark_synced(st, last_time);
        errno = saved;
    }
    return result;
}

/* ---- data ---------------------------------------------------------------------------------- */

static size_t iov_bytes(const struct iovec *parts, int count) {
    size_t total = 0;
    for (int i = 0; i < count; i++) total += parts[i].iov_len;
    return total;
}

#define GUARDED_WRITE(FD, OFFSET, LENGTH, CALL, SYNCED)                \
    struct stat st;                                                    \
    if (!tracked_fd(FD, &st)) return CALL;                             \
    point("write", NULL, FD);                                          \
    pthread_mutex_lock(&lock);                                         \
    fstat(FD, &st);                                                    \
    if (!grows(growth(&st, OFFSET, LENGTH))) {                         \
        pthread_mutex_unlock(&lock);                                   \
        return -1;                                                     \
    }                                                                  \
    before_write(FD, &st, OFFSET, LENGTH);                             \
    ssize_t result = written(FD, &st, CALL, SYNCED);                   \
    pthread_mutex_unlock(&lock);                                       \
    return result

ssize_t write(int fd, const void *data, size_t len) {
    GUARDED_WRITE(fd, position(fd, &st), len, syscall(SYS_write, fd, data, len), 0);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    GUARDED_WRITE(fd, position(fd, &st), iov_bytes(parts, count),
                  syscall(SYS_writev, fd, parts, count), 0);
}
ssize_t pwrite64(int fd, const void *data, size_t len, off64_t off) {
    GUARDED_WRITE(fd, (uint64_t)off, len, syscall(SYS_pwrite64, fd, data, len, off), 0);
}
ssize_t pwrite(int fd, const void *data, size_t len, off_t off) {
    return pwrite64(fd, data, len, off);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t off) {
    GUARDED_WRITE(fd, (uint64_t)off, iov_bytes(parts, count),
                  syscall(SYS_pwritev, fd, parts, (long)count, (long)off, 0L), 0);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t off) {
    return pwritev64(fd, parts, count, off);
}
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t off, int flags) {
    GUARDED_WRITE(fd, off == -1 ? position(fd, &st) : (uint64_t)off, iov_bytes(parts, count),
                  syscall(SYS_pwritev2, fd, parts, (long)count, (long)off, 0L, (long)flags),
                  (flags & (RWF_DSYNC | RWF_SYNC)) != 0);
}
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t off, int flags) {
    return pwritev64v2(fd, parts, count, off, flags);
}

int ftruncate64(int fd, off64_t size) {
    struct stat st;
    if (!tracked_fd(fd, &st)) return (int)syscall(SYS_ftruncate, fd, size);
    point("truncate", NULL, fd);
    pthread_mutex_lock(&lock);
    fstat(fd, &st);
    before_resize(fd, &st, (uint64_t)size);
    int result = (int)syscall(SYS_ftruncate, fd, size);
    pthread_mutex_unlock(&lock);
    return result;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
int truncate64(const char *path, off64_t size) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    int result = ftruncate64(fd, size), saved = errno;
    close(fd);
    errno = saved;
    return result;
}
int truncate(const char *path, off_t size) { return truncate64(path, size); }

int fallocate64(int fd, int mode, off64_t off, off64_t len) {
    struct stat st;
    if (!tracked_fd(fd, &st)) return (int)syscall(SYS_fallocate, fd, mode, off, len);
    point("fallocate", NULL, fd);
    pthread_mutex_lock(&lock);
    fstat(fd, &st);
    if (mode == 0 && !grows(growth(&st, (uint64_t)off, (uint64_t)len))) {
        pthread_mutex_unlock(&lock);
        return -1;
    }
    if (mode == 0) {
        if (off + len > st.st_size) before_resize(fd, &st, (uint64_t)(off + len));
    } else if (mode != FALLOC_KEEP_SIZE) {
        before_write(fd, &st, (uint64_t)off, (uint64_t)len);
    }
    int result = (int)syscall(SYS_fallocate, fd, mode, off, len);
    pthread_mutex_unlock(&lock);
    return result;
}
int fallocate(int fd, int mode, off_t off, off_t len) { return fallocate64(fd, mode, off, len); }
int posix_fallocate64(int fd, off64_t off, off64_t len) {
    int saved = errno;
    int result = fallocate64(fd, 0, off, len) == 0 ? 0 : errno;
    errno = saved;
    return result;
}
int posix_fallocate(int fd, off_t off, off_t len) { return posix_fallocate64(fd, off, len); }

/* Copies inside the kernel cannot be seen: refused, so that callers fall back to write. */
ssize_t copy_file_range(int in, off64_t *in_off, int out, off64_t *out_off, size_t len,
                        unsigned flags) {
    struct stat st;
    if (tracked_fd(out, &st)) { errno = ENOSYS; return -1; }
    return syscall(SYS_copy_file_range, in, in_off, out, out_off, len, flags);
}
ssize_t sendfile64(int out, int in, off64_t *off, size_t len) {
    struct stat st;
    if (tracked_fd(out, &st)) { errno = EINVAL; return -1; }
    return syscall(SYS_sendfile, out, in, off, len);
}
ssize_t sendfile(int out, int in, off_t *off, size_t len) { return sendfile64(out, in, off, len); }
void *mmap64(void *at, size_t len, int prot, int flags, int fd, off64_t off) {
    struct stat st;
    if ((flags & MAP_TYPE) != MAP_PRIVATE && (prot & PROT_WRITE) && !(flags & MAP_ANONYMOUS) &&
        tracked_fd(fd, &st)) {
        errno = EACCES;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, len, (long)prot, (long)flags, (long)fd, off);
}
void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off) {
    return mmap64(at, len, prot, flags, fd, off);
}

/* ---- syncs --------------------------------------------------------------------------------- */

static int must_fail(int fd) {
    if (control != NULL && control->fail_sync) return 1;
    char link[64], path[PATH_MAX], match[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    if (fail_after >= 0 && strstr(path, fail_match) != NULL &&
        __atomic_add_fetch(&sync_count, 1, __ATOMIC_SEQ_CST) > fail_after)
        return 1;
    char control[PATH_MAX + 32];
    snprintf(control, sizeof control, "%s/fail_sync", state_dir);
    int file = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return 0;
    n = syscall(SYS_read, file, match, sizeof match - 1);
    syscall(SYS_close, file);
    match[n > 0 ? n : 0] = 0;
    match[strcspn(match, "\n")] = 0;
    return strstr(path, match) != NULL;
}

static int sync_fd(int fd, long number) {
    struct stat st;
    if (!tracked_fd(fd, &st)) return (int)syscall(number, fd);
    point(S_ISDIR(st.st_mode) ? "sync of names" : "sync", NULL, fd);
    long delay_us = sync_delay_us + (control == NULL ? 0 : (long)control->sync_delay_us);
    if (delay_us > 0) {
        struct timespec pause = {delay_us / 1000000, (delay_us % 1000000) * 1000};
        nanosleep(&pause, NULL);
    }
    if (ignore_sync) return 0;
    pthread_mutex_lock(&lock);
    uint64_t upto = now_ns();
    pthread_mutex_unlock(&lock);
    if (must_fail(fd)) {
        struct header h = {.kind = K_POISON, .dev = st.st_dev, .ino = st.st_ino, .upto = upto};
        pthread_mutex_lock(&lock);
        record(&h, NULL, NULL, NULL, NULL, 0);
        pthread_mutex_unlock(&lock);
        errno = EIO;
        return -1;
    }
    int result = (int)syscall(number, fd);
    if (result == 0) {
        pthread_mutex_lock(&lock);
        mark_synced(&st, upto);
        pthread_mutex_unlock(&lock);
        errno = 0;
    }
    return result;
}
int fsync(int fd) { return sync_fd(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_fd(fd, SYS_fdatasync); }

/* ---- names --------------------------------------------------------------------------------- */

static int open_at(int dirfd, const char *path, int flags, mode_t mode) {
    char full[PATH_MAX];
    if (!(flags & (O_CREAT | O_TRUNC)) || !tracked_path(dirfd, path, full)) {
        int fd = (int)syscall(SYS_openat, dirfd, path, flags, mode);
        forget_fd(fd);
        return fd;
    }
    struct stat st;
    int exists = stat(full, &st) == 0;
    if (!exists || (flags & O_TRUNC)) point(exists ? "open to empty" : "create", full, -1);
    pthread_mutex_lock(&lock);
    exists = stat(full, &st) == 0;
    if (!exists && (flags & O_CREAT)) {
        struct header h = {.kind = K_CREATE};
        h.dir_ino = parent_ino(full, &h.dev);
        record(&h, full, NULL, NULL, NULL, 0);
    } else if (exists && (flags & O_TRUNC) && !(flags & O_EXCL) && S_ISREG(st.st_mode) &&
               st.st_size > 0) {
        int reader = (int)syscall(SYS_openat, AT_FDCWD, full, O_RDONLY | O_CLOEXEC, 0);
        if (reader >= 0) {
            forget_fd(reader);
            before_resize(reader, &st, 0);
            forget_fd(reader);
            syscall(SYS_close, reader);
        }
    }
    int fd = (int)syscall(SYS_openat, dirfd, path, flags, mode);
    forget_fd(fd);
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE_ARGUMENT(LAST)                                                    \
    mode_t mode = 0;                                                           \
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {                 \
        va_list arguments;                                                     \
        va_start(arguments, LAST);                                             \
        mode = va_arg(arguments, mode_t);                                      \
        va_end(arguments);                                                     \
    }
int open(const char *path, int flags, ...) {
    MODE_ARGUMENT(flags)
    return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE_ARGUMENT(flags)
    return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int dirfd, const char *path, int flags, ...) {
    MODE_ARGUMENT(flags)
    return open_at(dirfd, path, flags, mode);
}
int openat64(int dirfd, const char *path, int flags, ...) {
    MODE_ARGUMENT(flags)
    return open_at(dirfd, path, flags, mode);
}
int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __openat_2(int dirfd, const char *path, int flags) { return open_at(dirfd, path, flags, 0); }
int __openat64_2(int dirfd, const char *path, int flags) { return open_at(dirfd, path, flags, 0); }
int creat(const char *path, mode_t mode) {
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* Keep the file behind a name that is about to go, so that its removal can be undone. */
static void keep(const char *path, char out[PATH_MAX + 64]) {
    snprintf(out, PATH_MAX + 64, "%s/kept-%d-%llu", state_dir, (int)getpid(),
             (unsigned long long)now_ns());
    if (syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, out, 0) != 0) die("cannot keep a file");
}

static void remember_kept(const char *path, uint64_t dir_ino, uint64_t time_ns) {
    size_t len = strlen(path) + 1;
    struct kept *entry = malloc(sizeof *entry + len);
    if (entry == NULL) die("no memory");
    entry->dir_ino = dir_ino;
    entry->time_ns = time_ns;
    memcpy(entry->path, path, len);
    entry->next = kept_list;
    kept_list = entry;
}

static int unlink_at(int dirfd, const char *path, int flags) {
    char full[PATH_MAX], link[PATH_MAX + 64];
    struct stat st;
    if (!tracked_path(dirfd, path, full) || lstat(full, &st) != 0)
        return (int)syscall(SYS_unlinkat, dirfd, path, flags);
    point((flags & AT_REMOVEDIR) ? "rmdir" : "unlink", full, -1);
    pthread_mutex_lock(&lock);
    struct header h = {.kind = (flags & AT_REMOVEDIR) ? K_RMDIR : K_UNLINK, .ino = st.st_ino};
    h.dir_ino = parent_ino(full, &h.dev);
    if (flags & AT_REMOVEDIR) {
        record(&h, full, NULL, NULL, NULL, 0);
    } else if (S_ISREG(st.st_mode)) {
        keep(full, link);
        remember_kept(link, h.dir_ino, record(&h, full, link, NULL, NULL, 0));
    }
    int result = (int)syscall(SYS_unlinkat, dirfd, path, flags);
    pthread_mutex_unlock(&lock);
    return result;
}
int unlink(const char *path) { return unlink_at(AT_FDCWD, path, 0); }
int unlinkat(int dirfd, const char *path, int flags) { return unlink_at(dirfd, path, flags); }
int rmdir(const char *path) { return unlink_at(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
    struct stat st;
    if (lstat(path, &st) != 0) return -1;
    return unlink_at(AT_FDCWD, path, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
}

static int rename_at(int old_dir, const char *old, int new_dir, const char *new, unsigned flags) {
    char from[PATH_MAX], to[PATH_MAX], link[PATH_MAX + 64] = "";
    struct stat st;
    if (!tracked_path(new_dir, new, to) || !tracked_path(old_dir, old, from))
        return (int)syscall(SYS_renameat2, old_dir, old, new_dir, new, flags);
    if (flags > 1) { errno = ENOSYS; return -1; } /* 1 is RENAME_NOREPLACE */
    point("rename", to, -1);
    pthread_mutex_lock(&lock);
    struct header h = {.kind = K_RENAME};
    h.dir_ino = parent_ino(to, &h.dev);
    if (stat(from, &st) == 0) {
        h.ino = st.st_ino;
        int replaces = flags == 0 && lstat(to, &st) == 0 && S_ISREG(st.st_mode);
        if (replaces) keep(to, link);
        uint64_t at = record(&h, from, to, link, NULL, 0);
        if (replaces) remember_kept(link, h.dir_ino, at);
    }
    int result = (int)syscall(SYS_renameat2, old_dir, old, new_dir, new, flags);
    pthread_mutex_unlock(&lock);
    return result;
}
int rename(const char *old, const char *new) { return rename_at(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int old_dir, const char *old, int new_dir, const char *new) {
    return rename_at(old_dir, old, new_dir, new, 0);
}
int renameat2(int old_dir, const char *old, int new_dir, const char *new, unsigned flags) {
    return rename_at(old_dir, old, new_dir, new, flags);
}

static int named(enum kind kind, const char *full) {
    point(kind == K_LINK ? "link" : "mkdir", full, -1);
    struct header h = {.kind = kind};
    h.dir_ino = parent_ino(full, &h.dev);
    pthread_mutex_lock(&lock);
    record(&h, full, NULL, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return 0;
}
int linkat(int old_dir, const char *old, int new_dir, const char *new, int flags) {
    char full[PATH_MAX];
    struct stat st;
    if (tracked_path(new_dir, new, full) && lstat(full, &st) != 0) named(K_LINK, full);
    return (int)syscall(SYS_linkat, old_dir, old, new_dir, new, flags);
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }
int mkdirat(int dirfd, const char *path, mode_t mode) {
    char full[PATH_MAX];
    struct stat st;
    if (tracked_path(dirfd, path, full) && lstat(full, &st) != 0) named(K_MKDIR, full);
    return (int)syscall(SYS_mkdirat, dirfd, path, mode);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* ---- descriptors --------------------------------------------------------------------------- */

int close(int fd) {
    forget_fd(fd);
    return (int)syscall(SYS_close, fd);
}
int dup2(int old, int new) {
    if (old != new) forget_fd(new);
    return (int)(old == new ? syscall(SYS_fcntl, old, F_GETFD) < 0 ? -1 : new
                            : syscall(SYS_dup3, old, new, 0));
}
int dup3(int old, int new, int flags) {
    if (old != new) forget_fd(new);
    return (int)syscall(SYS_dup3, old, new, flags);
}
