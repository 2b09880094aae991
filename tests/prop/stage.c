/* Stage: builds both sides, and compares the result with the oracle's. */
#include "engine.h"
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool side_new(side *s, prop_case *c, const char *text, bool any_strides) {
    memset(s, 0, sizeof *s);
    snprintf(s->text, sizeof s->text, "%s", text);
    s->o = ora_parse(text);
    size_t n = (size_t)s->o->nparts, size = ora_size(s->o->dtype);
    s->held = prop_alloc(n * sizeof *s->held);
    s->dense = prop_alloc(n * sizeof *s->dense);
    s->next = prop_alloc(n * sizeof *s->next);
    s->got = prop_alloc(n * sizeof *s->got);
    s->memory = prop_alloc(n * sizeof *s->memory);
    for (size_t i = 0; i < n; i++) {
        held_style style = any_strides ? (held_style)gen_below(&c->rng, HELD_STYLES) : HELD_DENSE;
        held_new(&s->held[i], &c->rng, &s->o->part[i], size, style);
        s->dense[i] = prop_alloc((size_t)s->o->part[i].count * size);
        s->next[i] = prop_alloc((size_t)s->o->part[i].count * size);
        s->got[i] = prop_alloc((size_t)s->o->part[i].count * size);
        s->memory[i] = held_memory(&s->held[i]);
    }
    PROP_OK(c, rsh_layout_parse(text, &s->l));
    return true;
}

void side_free(side *s) {
    for (int64_t i = 0; s->o && i < s->o->nparts; i++) {
        held_free(&s->held[i]);
        free(s->dense[i]);
        free(s->next[i]);
        free(s->got[i]);
    }
    free(s->held);
    free(s->dense);
    free(s->next);
    free(s->got);
    free(s->memory);
    rsh_layout_free(s->l);
    ora_free(s->o);
}

void side_show(side *s) {
    for (int64_t i = 0; i < s->o->nparts; i++) held_put(&s->held[i], s->dense[i]);
}

void side_wipe(side *s) {
    for (int64_t i = 0; i < s->o->nparts; i++) held_wipe(&s->held[i]);
}

void side_set(side *s, const unsigned char *value) {
    size_t size = ora_size(s->o->dtype);
    for (int64_t i = 0; i < s->o->nparts; i++) {
        const ora_part *p = &s->o->part[i];
        for (int64_t j = 0; j < p->count; j++)
            memcpy(s->dense[i] + (size_t)j * size, value + (size_t)(p->partial * s->o->count + p->element[j]) * size,
                   size);
    }
    side_show(s);
}

void side_fill(side *s, gen_rng *g, bool raw) {
    size_t size = ora_size(s->o->dtype), n = (size_t)(s->o->count * s->o->npartial);
    unsigned char *value = prop_alloc(n * size);
    for (size_t i = 0; i < n; i++)
        if (raw)
            value_bits(g, s->o->dtype, value + i * size);
        else
            value_any(g, s->o->dtype, value + i * size);
    side_set(s, value);
    free(value);
}

int64_t side_first(const side *s, int64_t rank) {
    int64_t i = 0;
    while (i < s->o->nparts && s->o->part[i].rank < rank) i++;
    return i;
}

int64_t side_last_rank(const side *s) { return s->o->nparts ? s->o->part[s->o->nparts - 1].rank : 0; }

static void write_bytes(const unsigned char *p, size_t n, char out[40]) {
    for (size_t i = 0; i < n; i++) snprintf(out + 2 * i, 40 - 2 * i, "%02x", p[n - 1 - i]);
}

static bool part_matches(prop_case *c, const side *s, int64_t i, ora_likeness like, const char *when,
                         const unsigned char *found) {
    size_t size = ora_size(s->o->dtype);
    const ora_part *p = &s->o->part[i];
    char is[40], must_be[40];
    for (int64_t j = 0; j < p->count; j++) {
        const unsigned char *a = found + (size_t)j * size, *b = s->dense[i] + (size_t)j * size;
        if (ora_equal(s->o->dtype, like, a, b)) continue;
        write_bytes(a, size, is);
        write_bytes(b, size, must_be);
        return prop_say(c, "%s: rank %lld part %lld offset %lld (element %lld) is %s, must be %s", when,
                        (long long)p->rank, (long long)p->number, (long long)j, (long long)p->element[j], is, must_be);
    }
    return true;
}

bool side_matches(prop_case *c, const side *s, ora_likeness like, const char *when) {
    for (int64_t i = 0; i < s->o->nparts; i++) {
        const ora_part *p = &s->o->part[i];
        if (!engine_sees(p->rank)) continue;
        unsigned char *found = prop_alloc((size_t)p->count * ora_size(s->o->dtype));
        held_get(&s->held[i], found);
        bool ok = part_matches(c, s, i, like, when, found);
        free(found);
        if (!ok) return false;
        PROP(c, held_guards_are_whole(&s->held[i]), "%s: rank %lld: bytes outside the part were written", when,
             (long long)p->rank);
    }
    return true;
}

bool stage_new(stage *s, prop_case *c, const char *from, const char *to, bool any_strides) {
    memset(s, 0, sizeof *s);
    s->opts = (rsh_plan_opts)RSH_PLAN_OPTS_INIT;
    if (!side_new(&s->from, c, from, any_strides) || !side_new(&s->to, c, to, any_strides)) return false;
    const ora_layout *a = s->from.o, *b = s->to.o;
    s->supported = a->op == ORA_NONE || b->op == ORA_NONE || a->op == b->op;
    bool reduced = a->npartial > 1 && !ora_moves_alone(a, b);
    s->like = a->dtype != b->dtype && !reduced ? ORA_VALUES : ORA_BITS;
    int64_t last =
        side_last_rank(&s->from) > side_last_rank(&s->to) ? side_last_rank(&s->from) : side_last_rank(&s->to);
    s->nranks = engine_ranks((int)last + 1 + gen_chance(&c->rng, 20));
    return true;
}

void stage_free(stage *s) {
    side_free(&s->from);
    side_free(&s->to);
}

void stage_values(stage *s, gen_rng *g) {
    side_fill(&s->from, g, s->raw);
    side_wipe(&s->to);
    bool by_node = s->opts.reduce == RSH_REDUCE_BY_NODE && !ora_has_replicas(s->from.o);
    ora_move(s->from.o, s->from.dense, s->to.o, s->to.dense, by_node ? s->opts.ranks_per_node : 0);
}

static void swap_values(side *s) {
    unsigned char **swap = s->dense;
    s->dense = s->next;
    s->next = swap;
}

void stage_next_values(stage *s, gen_rng *g) {
    swap_values(&s->from);
    swap_values(&s->to);
    stage_values(s, g);
    swap_values(&s->from);
    swap_values(&s->to);
    side_show(&s->from);
}

void stage_turn(stage *s, int64_t rank) {
    for (int64_t i = 0; i < s->to.o->nparts; i++)
        if (rank < 0 || s->to.o->part[i].rank == rank) {
            held_get(&s->to.held[i], s->to.got[i]);
            held_wipe(&s->to.held[i]);
        }
    for (int64_t i = 0; i < s->from.o->nparts; i++)
        if (rank < 0 || s->from.o->part[i].rank == rank) held_put(&s->from.held[i], s->from.next[i]);
}

bool stage_done_twice(prop_case *c, stage *s, const char *when) {
    for (int64_t i = 0; i < s->to.o->nparts; i++)
        if (engine_sees(s->to.o->part[i].rank) && !part_matches(c, &s->to, i, s->like, "the first run", s->to.got[i]))
            return false;
    swap_values(&s->from);
    swap_values(&s->to);
    return stage_done(c, s, when);
}

/* Is the result the same, bit for bit, for any order of the contributions? */
static bool any_order_will_do(const ora_layout *from) {
    return from->op == ORA_NONE || from->op == ORA_MIN || from->op == ORA_MAX_OP ||
           (!ora_is_float(from->dtype) && !ora_is_complex(from->dtype));
}

static bool can_plan(const stage *s) {
    rsh_plan *p = NULL;
    bool can = rsh_plan_new(s->from.l, s->to.l, &s->opts, &p) == RSH_OK;
    rsh_plan_free(p);
    return can;
}

/* Draws a limit on scratch: small, but not so small that a large tensor becomes a million messages of one element. */
static uint64_t any_ceiling(const stage *s, gen_rng *g) {
    uint64_t bytes = (uint64_t)rsh_layout_count(s->from.l) * rsh_dtype_size(rsh_layout_dtype(s->from.l));
    return bytes / 64 + (uint64_t)gen_below(g, 4096);
}

/* Sometimes chooses reduction by node and a limit on scratch, if the plan supports them. */
static void maybe_more(stage *s, gen_rng *g) {
    bool replicas = ora_has_replicas(s->from.o); /* the oracle does not know which replica is read */
    if ((!replicas || any_order_will_do(s->from.o)) && gen_chance(g, 50)) {
        s->opts.reduce = RSH_REDUCE_BY_NODE;
        s->opts.ranks_per_node = gen_between(g, 1, 5); /* otherwise the comm's own map may be used */
        if (replicas && s->like == ORA_BITS) s->like = ORA_ZEROS;
    }
    if (gen_chance(g, 25)) {
        s->opts.has_max_scratch = true;
        s->opts.max_scratch_bytes = any_ceiling(s, g);
        bool messages = s->opts.messages;
        s->opts.messages |= engine_has_nodes();
        if (!can_plan(s)) s->opts.has_max_scratch = false;
        s->opts.messages = messages;
    }
}

void stage_options(stage *s, prop_case *c) {
    gen_rng *g = &c->rng;
    if (gen_chance(g, 50)) s->opts.ranks_per_node = gen_between(g, 0, 5);
    s->opts.messages = gen_chance(g, 35);
    if (s->supported) maybe_more(s, g);
    size_t n = strlen(c->note);
    snprintf(c->note + n, sizeof c->note - n, " ranks=%d ranks_per_node=%d messages=%d by_node=%d ceiling=%lld",
             s->nranks, (int)s->opts.ranks_per_node, s->opts.messages, s->opts.reduce == RSH_REDUCE_BY_NODE,
             s->opts.has_max_scratch ? (long long)s->opts.max_scratch_bytes : -1LL);
}

bool stage_done(prop_case *c, const stage *s, const char *when) {
    char source[128];
    snprintf(source, sizeof source, "%s, the source afterwards", when);
    return side_matches(c, &s->to, s->like, when) && side_matches(c, &s->from, ORA_BITS, source);
}
