/* Alloc: counts of the memory that each thread allocates, and the cache of freed blocks. */
#ifndef RESHARD_ALLOC_H
#define RESHARD_ALLOC_H

#include <stdint.h>

#include <reshard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory that this thread has allocated since it started. */
typedef struct rsh_alloc_stats {
    uint64_t allocations;   /* successful requests */
    uint64_t live;          /* allocations minus frees, both counted on this thread */
    uint64_t scratch_bytes; /* scratch (staging buffers that hold elements) held now */
    uint64_t scratch_peak;  /* the most scratch held at once since rsh_alloc_reset_peak */
    uint64_t data_bytes;    /* elements of tensors and parts that this thread allocated and no
                               thread has freed yet */
    uint64_t cached_bytes;  /* freed blocks of such elements that are kept for reuse */
    uint64_t new_blocks;    /* blocks for elements that came from the system because no kept block
                               had a suitable size */
    uint64_t reserved[9];   /* 0; for counts of later versions */
} rsh_alloc_stats;
/* Returns the counts of the calling thread.  Local. */
RSH_API rsh_alloc_stats rsh_alloc_get_stats(void);
/* Resets scratch_peak of the calling thread to the scratch it holds now.  Local. */
RSH_API void rsh_alloc_reset_peak(void);

/* Set and return the cap of the block cache.  Freed blocks of 64 KiB and more stay mapped and
 * resident, up to this cap, and are reused for requests of about their size, because the page
 * faults of new memory would cost more than a copy.  The cap is for the whole process, shared
 * memory included.  It is 1 GiB unless the environment variable RESHARD_CACHE_BYTES gives another
 * number; 0 disables the cache.  If the variable is not a number, calls that create a tensor or a
 * comm fail with RSH_EVALUE.  Smaller blocks are kept by the thread that frees them, up to 16 MiB,
 * until it ends; they are not counted.  Before a call fails with RSH_ENOMEM, the library returns
 * its cached memory to the system and tries again.  Local, from any thread. */
RSH_API void rsh_alloc_set_cap(uint64_t bytes);
RSH_API uint64_t rsh_alloc_get_cap(void);
/* Returns the bytes that the process caches now in blocks of 64 KiB and more.  Local, from any
 * thread. */
RSH_API uint64_t rsh_alloc_cached(void);
/* Returns all cached memory of the process, and the small blocks of the calling thread, to the
 * system.  Local, from any thread. */
RSH_API void rsh_alloc_trim(void);

/* Makes the n-th allocation of this thread from now (0: the next) fail once, and with it the call
 * that needs it; n < 0 switches this off.  A program can use it to test how it handles RSH_ENOMEM:
 * it repeats a call with n = 0, 1, 2, ... until the call succeeds.  Local. */
RSH_API void rsh_alloc_fail_at(int64_t n);

#ifdef __cplusplus
}
#endif
#endif
