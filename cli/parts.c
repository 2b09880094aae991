/* Parts: computes the offset of each part of a layout in one block of memory. */
#include "parts.h"

#include <stdlib.h>
#include <sys/mman.h>

static int64_t count_parts(const rsh_layout *l) {
    int64_t n = 0, nranks = rsh_layout_nranks(l);
    for (int64_t i = 0; i < nranks; i++) n += rsh_layout_nparts(l, rsh_layout_rank(l, i));
    return n;
}

/* `data` holds offsets as integers until parts_settle adds the address of the memory. */
static rsh_status place_rank(parts *p, int64_t rank, int64_t *next) {
    size_t size = rsh_dtype_size(rsh_layout_dtype(p->layout));
    int64_t nparts = rsh_layout_nparts(p->layout, rank);
    for (int64_t part = 0; part < nparts; part++) {
        rsh_part shape;
        rsh_status st = rsh_layout_part(p->layout, rank, part, &shape);
        if (st) return st;
        p->memory[(*next)++] = (rsh_memory){(void *)p->bytes, NULL};
        p->bytes += (size_t)shape.count * size;
    }
    return RSH_OK;
}

int parts_measure(parts *p, const rsh_layout *layout) {
    *p = (parts){.layout = layout, .n = count_parts(layout)};
    p->memory = calloc((size_t)p->n + 1, sizeof *p->memory);
    if (!p->memory) return fail("out of memory for %lld parts", (long long)p->n);
    int64_t nranks = rsh_layout_nranks(layout), next = 0;
    for (int64_t i = 0; i < nranks; i++) {
        rsh_status st = place_rank(p, rsh_layout_rank(layout, i), &next);
        if (st) return fail_library(st);
    }
    return DONE;
}

void parts_settle(parts *p, char *data) {
    p->data = data;
    for (int64_t i = 0; i < p->n; i++) p->memory[i].data = data + (size_t)p->memory[i].data;
}

rsh_status parts_allocate(parts *p) {
    int64_t bytes = (int64_t)p->bytes;
    rsh_status st = rsh_tensor_empty(RSH_U8, 1, &bytes, &p->owner);
    if (!st) parts_settle(p, rsh_tensor_data(p->owner));
    return st;
}

void dense_strides(int ndim, const int64_t *shape, bool fortran, int64_t *strides) {
    int64_t step = 1;
    for (int k = 0; k < ndim; k++) {
        int d = fortran ? k : ndim - 1 - k;
        strides[d] = step;
        step *= shape[d] > 1 ? shape[d] : 1;
    }
}

int parts_order(parts *p, bool fortran) {
    int64_t nranks = rsh_layout_nranks(p->layout), next = 0;
    p->strides = calloc((size_t)p->n + 1, sizeof *p->strides);
    if (!p->strides) return fail("out of memory for the strides of %lld parts", (long long)p->n);
    for (int64_t k = 0; k < nranks; k++) {
        int64_t rank = rsh_layout_rank(p->layout, k), nparts = rsh_layout_nparts(p->layout, rank);
        for (int64_t i = 0; i < nparts; i++, next++) {
            rsh_part part;
            rsh_status st = rsh_layout_part(p->layout, rank, i, &part);
            if (st) return fail_library(st);
            dense_strides(part.ndim, part.shape, fortran, p->strides[next]);
            p->memory[next].strides = p->strides[next];
        }
    }
    return DONE;
}

int64_t parts_of(const parts *p, int64_t rank) {
    int64_t n = 0, nranks = rsh_layout_nranks(p->layout);
    for (int64_t i = 0; i < nranks && rsh_layout_rank(p->layout, i) < rank; i++)
        n += rsh_layout_nparts(p->layout, rsh_layout_rank(p->layout, i));
    return n;
}

size_t parts_bytes(const parts *p, int64_t i) {
    uintptr_t start = (uintptr_t)p->memory[i].data,
              end = i + 1 < p->n ? (uintptr_t)p->memory[i + 1].data : (uintptr_t)p->data + p->bytes;
    return end - start;
}

void parts_free(parts *p) {
    if (p->mapping) munmap(p->mapping, p->mapped);
    rsh_tensor_free(p->owner);
    free(p->memory);
    free(p->strides);
}
