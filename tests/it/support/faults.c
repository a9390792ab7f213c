/* Makes calls of the C library fail for files below one folder, as a disk does.
 *
 * FAULTS_CONTROL names a file of 16 bytes that is mapped: the percentage of calls that
 * fail, for each operation, at 7 the number of the error, and at 8 the count of failed
 * calls (64 bits). FAULTS_BELOW names the folder. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { READ, WRITE, SYNC, RENAME, MKDIR };

static volatile unsigned char *control;
static char below[4096];
static size_t below_length;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULTS_CONTROL"), *folder = getenv("FAULTS_BELOW");
    if (!path || !folder)
        return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    snprintf(below, sizeof below, "%s", folder);
    below_length = strlen(below);
    if (mapped != MAP_FAILED)
        control = mapped;
}

static int is_drawn(int operation)
{
    static __thread uint32_t random;
    unsigned percent = control ? control[operation] : 0;
    if (!percent)
        return 0;
    if (!random)
        random = (uint32_t)(uintptr_t)&random | 1;
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    return random % 100 < percent;
}

static int fail(void)
{
    __atomic_fetch_add((volatile uint64_t *)(control + 8), 1, __ATOMIC_SEQ_CST);
    errno = control[7];
    return 1;
}

static int fails_at(int operation, const char *path)
{
    return is_drawn(operation) && !strncmp(path, below, below_length) && fail();
}

static int fails(int operation, int file)
{
    char link[64], path[4096];
    if (!is_drawn(operation))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return !strncmp(path, below, below_length) && fail();
}

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) \
        next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define FAULTY(type, name, operation, subject, check, parameters, arguments) \
    type name parameters \
    { \
        NEXT(name); \
        return check(operation, subject) ? -1 : next arguments; \
    }

FAULTY(ssize_t, read, READ, file, fails, (int file, void *to, size_t size), (file, to, size))
FAULTY(ssize_t, pread, READ, file, fails, (int file, void *to, size_t size, off_t at), (file, to, size, at))
FAULTY(ssize_t, pread64, READ, file, fails, (int file, void *to, size_t size, off64_t at), (file, to, size, at))
FAULTY(ssize_t, write, WRITE, file, fails, (int file, const void *from, size_t size), (file, from, size))
FAULTY(ssize_t, pwrite, WRITE, file, fails, (int file, const void *from, size_t size, off_t at), (file, from, size, at))
FAULTY(ssize_t, pwrite64, WRITE, file, fails, (int file, const void *from, size_t size, off64_t at), (file, from, size, at))
FAULTY(int, ftruncate, WRITE, file, fails, (int file, off_t size), (file, size))
FAULTY(int, ftruncate64, WRITE, file, fails, (int file, off64_t size), (file, size))
FAULTY(int, fsync, SYNC, file, fails, (int file), (file))
FAULTY(int, fdatasync, SYNC, file, fails, (int file), (file))
FAULTY(int, rename, RENAME, from, fails_at, (const char *from, const char *to), (from, to))
FAULTY(int, mkdir, MKDIR, path, fails_at, (const char *path, mode_t mode), (path, mode))
