/* Memory: nn calls malloc only here, for handles and lists.  Elements of tensors come from the core library. */
#include <stdlib.h>
#include <string.h>

#include "nn/impl.h"

void *rshn_malloc(size_t bytes) { return malloc(bytes ? bytes : 1); }
void *rshn_calloc(size_t n, size_t size) { return calloc(n ? n : 1, size ? size : 1); }
void *rshn_realloc(void *p, size_t bytes) { return realloc(p, bytes ? bytes : 1); }
void rshn_free(void *p) { free(p); }

char *rshn_duplicate(const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}
