/* Alloc: what the library allocates, counted for each thread, and the freed memory it keeps. */
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
    uint64_t cached_bytes;  /* blocks of such elements that were freed and are kept for reuse */
    uint64_t new_blocks;    /* blocks for elements that were asked of the system, since none that is
                               kept had the size */
    uint64_t reserved[9];   /* 0; for counts of later versions */
} rsh_alloc_stats;
/* The counts of the calling thread.  Local. */
RSH_API rsh_alloc_stats rsh_alloc_get_stats(void);
/* Sets scratch_peak of the calling thread to what it holds now.  Local. */
RSH_API void rsh_alloc_reset_peak(void);

/* Freed blocks of 64 KiB and more stay mapped and resident, up to a cap, and serve the next request
 * of about their size: new memory would cost more page faults than a copy costs time.  The cap is
 * for the whole process, shared memory included.  It is 1 GiB unless the environment variable
 * RESHARD_CACHE_BYTES gives another number; 0 keeps nothing.  What makes a tensor or a comm refuses
 * a text that is no number with RSH_EVALUE.  Smaller blocks are kept by the thread that frees them,
 * up to 16 MiB, until it ends; they are not counted.  Before a call fails with RSH_ENOMEM, the
 * library returns what it keeps to the system and tries again.  Local, from any thread. */
RSH_API void rsh_alloc_set_cap(uint64_t bytes);
RSH_API uint64_t rsh_alloc_get_cap(void);
/* Bytes that the process keeps now in blocks of 64 KiB and more.  Local, from any thread. */
RSH_API uint64_t rsh_alloc_cached(void);
/* Returns to the system all that the process keeps, and the small blocks of the calling thread.
 * Local, from any thread. */
RSH_API void rsh_alloc_trim(void);

/* Makes the n-th allocation of this thread from now (0: the next) fail, once, and with it the call
 * that needs it; n < 0 switches this off.  With it a program tests what it does on RSH_ENOMEM: it
 * repeats a call with n = 0, 1, 2, ... until the call succeeds.  Local. */
RSH_API void rsh_alloc_fail_at(int64_t n);

#ifdef __cplusplus
}
#endif
#endif
