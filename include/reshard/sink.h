/* Sink: the destination of text that the library writes. */
#ifndef RESHARD_SINK_H
#define RESHARD_SINK_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A destination of text.  `write` is called with consecutive bytes of the text and returns 0, or
 * non-zero to stop; the writing function then returns RSH_EIO. */
typedef struct rsh_sink {
    int (*write)(void *ctx, const char *text, size_t length);
    void *ctx;
} rsh_sink;

#ifdef __cplusplus
}
#endif
#endif
