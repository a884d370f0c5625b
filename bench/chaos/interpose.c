/*
 * What a broker's process is told by the C library, for bench.chaos: the time, and that its disk
 * is slow or fails. Loaded with LD_PRELOAD; what it does stands in a page of shared memory, the
 * file that CHAOS_CONTROL names, which the run writes at any time. All zero: nothing.
 *
 * Only calls on files below CHAOS_DISK are meant; which ones these are is asked of /proc, and only
 * while something is wrong.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    int64_t clock_offset_ns; /* added to the wall clock */
    int64_t sync_delay_us;   /* before each sync */
    int32_t sync_errno;
    int32_t write_errno;
    int32_t read_errno;
    int32_t faults; /* how many calls have failed */
};

static struct control none;
static volatile struct control *control = &none;
static const char *disk = NULL;
static size_t disk_length = 0;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CHAOS_CONTROL");
    disk = getenv("CHAOS_DISK");
    disk_length = disk ? strlen(disk) : 0;
    if (!path)
        return;
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED)
        control = page;
}

static int is_ours(int fd)
{
    char name[64], path[PATH_MAX];
    if (!disk_length)
        return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    return length > (ssize_t)disk_length && !strncmp(path, disk, disk_length);
}

static int fails(int fd, int number)
{
    if (!number || !is_ours(fd))
        return 0;
    __sync_fetch_and_add(&((struct control *)control)->faults, 1);
    errno = number;
    return 1;
}

static int sync_fails(int fd)
{
    int64_t delay_us = control->sync_delay_us;
    if (delay_us && is_ours(fd))
        usleep(delay_us);
    return fails(fd, control->sync_errno);
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) \
        real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* The wall clock. */

int clock_gettime(clockid_t which, struct timespec *now)
{
    REAL(clock_gettime);
    int result = real(which, now);
    int64_t offset = control->clock_offset_ns;
    if (!result && offset && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
        int64_t ns = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec + offset;
        now->tv_sec = ns / 1000000000;
        now->tv_nsec = ns % 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (into)
        *into = exact.tv_sec;
    return exact.tv_sec;
}

/* Files. */

int fsync(int fd)
{
    REAL(fsync);
    return sync_fails(fd) ? -1 : real(fd);
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    return sync_fails(fd) ? -1 : real(fd);
}

int sync_file_range(int fd, off64_t at, off64_t size, unsigned int flags)
{
    REAL(sync_file_range);
    return sync_fails(fd) ? -1 : real(fd, at, size, flags);
}

#define WRITE(name, parameters, arguments) \
    ssize_t name parameters \
    { \
        REAL(name); \
        return fails(fd, control->write_errno) ? -1 : real arguments; \
    }

WRITE(write, (int fd, const void *data, size_t size), (fd, data, size))
WRITE(pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRITE(pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
WRITE(writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
WRITE(pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
WRITE(pwritev64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
WRITE(pwritev2, (int fd, const struct iovec *parts, int count, off_t at, int flags),
      (fd, parts, count, at, flags))
WRITE(pwritev64v2, (int fd, const struct iovec *parts, int count, off64_t at, int flags),
      (fd, parts, count, at, flags))

#define READ(name, parameters, arguments) \
    ssize_t name parameters \
    { \
        REAL(name); \
        return fails(fd, control->read_errno) ? -1 : real arguments; \
    }

READ(read, (int fd, void *data, size_t size), (fd, data, size))
READ(pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
READ(pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
READ(readv, (int fd, const struct iovec *parts, int count), (fd, parts, count))
READ(preadv, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
READ(preadv64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
READ(preadv2, (int fd, const struct iovec *parts, int count, off_t at, int flags),
     (fd, parts, count, at, flags))
READ(preadv64v2, (int fd, const struct iovec *parts, int count, off64_t at, int flags),
     (fd, parts, count, at, flags))

ssize_t sendfile(int out, int fd, off_t *at, size_t size)
{
    REAL(sendfile);
    return fails(fd, control->read_errno) ? -1 : real(out, fd, at, size);
}

ssize_t sendfile64(int out, int fd, off64_t *at, size_t size)
{
    REAL(sendfile64);
    return fails(fd, control->read_errno) ? -1 : real(out, fd, at, size);
}
