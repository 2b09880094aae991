/* Message: bytes to or from a rank. */
#ifndef RESHARD_MESSAGE_H
#define RESHARD_MESSAGE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One entry of a list of sends or receives.  A receive writes `data`, a send only reads it. */
typedef struct rsh_message {
    int peer;
    void *data;
    size_t bytes;
} rsh_message;

#ifdef __cplusplus
}
#endif
#endif
