/* Draft: a description that grows while its text is parsed; axis names are resolved once the mesh is known. */
#include "layout/draft.h"

#include <stdio.h>
#include <string.h>

/* Returns the list with room for one more entry: the capacity doubles when n reaches a power of two.  NULL: memory has
 * run out, and the list is unchanged. */
static void *grow_list(const void *list, int64_t n, size_t size) {
    if (n & (n - 1)) return (void *)list;
    return rshi_realloc((void *)list, n ? 2 * (size_t)n : 1, size);
}

static rsh_status add_place(int **list, int64_t n, int at) {
    int *more = grow_list(*list, n, sizeof *more);
    if (!more) return rshi_nomem();
    more[n] = at;
    *list = more;
    return RSH_OK;
}

rsh_status rshi_draft_add_number(const int64_t **list, int64_t *n, int64_t number) {
    int64_t *more = grow_list(*list, *n, sizeof *more);
    if (!more) return rshi_nomem();
    more[(*n)++] = number;
    *list = more;
    return RSH_OK;
}

rsh_status rshi_draft_add_segment(rshi_draft *draft, int d, int at) {
    rsh_dim *dim = &draft->desc.dim[d];
    rsh_segment *segment = grow_list(draft->segment[d], dim->nsegments, sizeof *segment);
    if (!segment) return rshi_nomem();
    dim->segment = draft->segment[d] = segment;
    RSH_TRY(add_place(&draft->origin.segment[d], dim->nsegments, at));
    RSH_TRY(add_place(&draft->origin.segment_cut[d], dim->nsegments, 0));
    segment[dim->nsegments++] = (rsh_segment){0};
    return RSH_OK;
}

rsh_status rshi_draft_add_box(rshi_draft *draft, int at) {
    rsh_ranked_box *box = grow_list(draft->box, draft->desc.nboxes, sizeof *box);
    if (!box) return rshi_nomem();
    draft->desc.boxes = draft->box = box;
    RSH_TRY(add_place(&draft->origin.box, draft->desc.nboxes, at));
    box[draft->desc.nboxes++] = (rsh_ranked_box){0};
    return RSH_OK;
}

void rshi_draft_release(rshi_draft *draft) {
    rsh_layout_desc *desc = &draft->desc;
    for (int d = 0; d < RSH_MAX_NDIM; d++) {
        for (int s = 0; s < desc->dim[d].nsegments; s++) rshi_free((void *)draft->segment[d][s].cut.sizes);
        rshi_free(draft->segment[d]);
        rshi_free((void *)desc->dim[d].cut.sizes);
        rshi_free(draft->origin.segment[d]);
        rshi_free(draft->origin.segment_cut[d]);
    }
    for (int64_t i = 0; i < desc->nboxes; i++) rshi_free((void *)draft->box[i].ranks);
    rshi_free(draft->box);
    rshi_free(draft->origin.box);
    rshi_free((void *)desc->flat.sizes);
    rshi_free((void *)desc->ranks);
}

/* ---- mesh and axes ---- */

rsh_status rshi_draft_take_mesh(rshi_draft *draft, const rsh_layout_desc *mesh) {
    int64_t positions = 1, *ranks;
    RSH_REQUIRE((unsigned)mesh->naxes <= RSH_MAX_AXES, RSH_EVALUE,
                "layout: mesh has %d axes, at most %d are supported", mesh->naxes,
                RSH_MAX_AXES);
    draft->desc.naxes = mesh->naxes;
    memcpy(draft->desc.axis, mesh->axis, sizeof mesh->axis);
    draft->desc.first_rank = mesh->first_rank;
    for (int i = 0; i < mesh->naxes; i++)
        RSH_REQUIRE(mesh->axis[i].size >= 1 && rshi_mul(positions, mesh->axis[i].size, &positions) &&
                        positions <= RSHI_RANK_MAX + 1,
                    RSH_EVALUE, "layout: axis %d of the default mesh has an invalid size %lld", i,
                    (long long)mesh->axis[i].size);
    if (!mesh->ranks || !mesh->naxes) return RSH_OK;
    draft->desc.ranks = ranks = rshi_alloc((size_t)positions, sizeof *ranks);
    if (!ranks) return rshi_nomem();
    memcpy(ranks, mesh->ranks, (size_t)positions * sizeof *ranks);
    return RSH_OK;
}

static rsh_status unknown_axis(const rshi_draft *draft, int offset) {
    const rsh_layout_desc *desc = &draft->desc;
    const char *name = draft->origin.text + offset;
    char mesh[RSH_MAX_AXES * (sizeof desc->axis[0].name + 24)] = "";
    rshi_text_place here = {.at = offset + 1};
    int length = (int)rshi_min((int64_t)rshi_word_length(name), 40), used = 0;
    if (!desc->naxes)
        return rshi_origin_fail(
            &draft->origin, here, RSH_EVALUE,
            "axis \"%.*s\" is not defined; add \"on %.*s=4\", with the number of parts instead of 4", length, name,
            length, name);
    for (int i = 0; i < desc->naxes; i++)
        used += snprintf(mesh + used, sizeof mesh - (size_t)used, "%s%.31s=%lld", i ? "," : "", desc->axis[i].name,
                         (long long)desc->axis[i].size);
    return rshi_origin_fail(&draft->origin, here, RSH_EVALUE, "axis \"%.*s\" is not in the mesh \"%s\"", length, name,
                            mesh);
}

static bool is_named(const rsh_axis *axis, const char *name, size_t length) {
    return strnlen(axis->name, sizeof axis->name) == length && !memcmp(axis->name, name, length);
}

static rsh_status find_axes(const rshi_draft *draft, int n, int *axes) {
    for (int i = 0; i < n; i++) {
        const char *name = draft->origin.text + axes[i];
        size_t length = rshi_word_length(name);
        int a = 0;
        while (a < draft->desc.naxes && !is_named(&draft->desc.axis[a], name, length)) a++;
        if (a == draft->desc.naxes) return unknown_axis(draft, axes[i]);
        axes[i] = a;
    }
    return RSH_OK;
}

rsh_status rshi_draft_find_axes(rshi_draft *draft) {
    rsh_layout_desc *desc = &draft->desc;
    for (int d = 0; d < desc->ndim; d++) {
        for (int s = 0; s < desc->dim[d].nsegments; s++)
            RSH_TRY(find_axes(draft, draft->segment[d][s].cut.naxes, draft->segment[d][s].cut.axes));
        RSH_TRY(find_axes(draft, desc->dim[d].cut.naxes, desc->dim[d].cut.axes));
    }
    RSH_TRY(find_axes(draft, desc->flat.naxes, desc->flat.axes));
    return find_axes(draft, desc->npartial, desc->partial);
}
