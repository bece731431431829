/* Preloaded, it makes each read of a table of the state store take SLOW_READ_US microseconds longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

long slow_reads_made = 0;

static void wait_if_table(int file) {
    char link[64], name[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length <= 0) return;
    name[length] = 0;
    if (!strstr(name, ".sst")) return;
    const char *asked = getenv("SLOW_READ_US");
    struct timespec pause = {0, (asked ? atol(asked) : 0) * 1000};
    __atomic_add_fetch(&slow_reads_made, 1, __ATOMIC_RELAXED);
    nanosleep(&pause, 0);
}

ssize_t pread64(int file, void *into, size_t size, off_t offset) {
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (!real) real = dlsym(RTLD_NEXT, "pread64");
    wait_if_table(file);
    return real(file, into, size, offset);
}

ssize_t pread(int file, void *into, size_t size, off_t offset) {
    return pread64(file, into, size, offset);
}
