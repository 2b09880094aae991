/* Saved: what an op keeps for its backward, unchanged or packed by hooks. */
#include "grad/impl.h"

#include <string.h>

/* ---- in forward ---- */

/* If the slots in the node's block are used up, moves the slots to a separate list. */
static rsh_status grow_slots(rshi_entry *n) {
    if (n->nslots < n->room) return RSH_OK;
    int room = 2 * n->room;
    rshi_slot *list = n->spilled ? rshi_realloc(n->slot, (size_t)room, sizeof *list)
                                 : rshi_alloc((size_t)room, sizeof *list);
    if (!list) return rshi_nomem();
    if (!n->spilled) memcpy(list, n->slot, (size_t)n->nslots * sizeof *list);
    n->spilled = true;
    n->slot = list;
    n->room = room;
    return RSH_OK;
}

/* Creates a payload with room for a tensor of every part. */
static rshi_payload *list_new(int64_t nparts) {
    rshi_payload *p = rshi_payload_new(NULL, NULL);
    rsh_tensor **list = p ? rshi_calloc((size_t)nparts, sizeof *list) : NULL;
    if (!list) {
        rshi_payload_drop(p);
        return NULL;
    }
    p->list = list;
    p->nlist = nparts;
    return p;
}

static rsh_status add_first(rshi_entry *n, rshi_slot_kind kind, int index, rsh_tensor *t) {
    RSH_TRY(grow_slots(n));
    rshi_slot *s = &n->slot[n->nslots];
    *s = (rshi_slot){.kind = kind, .index = index};
    if (kind == RSHI_SLOT_TENSOR) {
        s->payload = n->nparts > 1 ? list_new(n->nparts) : rshi_payload_new(t, NULL);
        if (!s->payload) return rshi_nomem();
        if (n->nparts > 1) s->payload->list[0] = t;
    }
    n->nslots++;
    return RSH_OK;
}

static rsh_status add_next(rshi_entry *n, rshi_slot_kind kind, int index, rsh_tensor *t) {
    rshi_slot *s = n->saving < n->nslots ? &n->slot[n->saving] : NULL;
    RSH_REQUIRE(s && s->kind == kind && s->index == index, RSH_EVALUE,
                "%s: part %lld and part 0 save different tensors in slot %d; all parts must save the same tensors "
                "in the same order", n->op->name,
                (long long)n->part, n->saving);
    if (t) s->payload->list[n->part] = t;
    return RSH_OK;
}

rsh_status rshi_slot_add(rshi_entry *n, rshi_slot_kind kind, int index, rsh_tensor *t) {
    if (n->phase != RSHI_FORWARD) {
        rsh_tensor_free(t);
        return rshi_fail(RSH_ERUNTIME, "%s: tensors can be saved only in forward", n->op->name);
    }
    rsh_status st = n->recorded ? (n->part ? add_next : add_first)(n, kind, index, t) : RSH_OK;
    if (st || !n->recorded) rsh_tensor_free(t);
    n->saving++;
    return st;
}

/* ---- packing ---- */

/* Sets a message if a hook failed without setting one. */
static rsh_status hook_failed(const char *which, const char *who, rsh_status st, uint64_t sentences) {
    if (rshi_sentences() != sentences) return st;
    return rshi_fail(st, "the %s hook failed on a tensor that %s saved", which, who);
}

static rsh_status call_pack(const char *who, rshi_slot *s, rshi_hooks *pair, rsh_value *v) {
    uint64_t before = rshi_payload_version(v->payload), sentences = rshi_sentences();
    rsh_status st = pair->hooks.pack(pair->hooks.ctx, v, &s->packed);
    if (st) return hook_failed("pack", who, st, sentences);
    s->pair = pair;
    pair->refs++;
    RSH_REQUIRE(rshi_payload_version(v->payload) == before, RSH_ERUNTIME,
                "the pack hook must not change a tensor in place, but it changed one that %s saved", who);
    return RSH_OK;
}

static rsh_status pack_slot(const char *who, rshi_slot *s, rshi_hooks *pair, rsh_value *v) {
    rshi_tape *tape = rshi_tape_mine();
    s->form = tape ? rshi_shelf_take(&tape->forms, sizeof *s->form) : NULL;
    if (!s->form) return rshi_nomem();
    rshi_profile_of(v->payload, s->form);
    bool was = rsh_grad_enable(false);
    rsh_status st = call_pack(who, s, pair, v);
    rsh_grad_enable(was);
    return st;
}

/* Packs a payload.  A hook gets an input itself, so that it can tell whether it is a parameter.  For anything else it
 * gets a leaf, which it may keep without a cycle of references. */
static rsh_status pack_payload(rshi_entry *n, rshi_slot *s, rshi_hooks *pair, rshi_payload *payload) {
    if (s->kind == RSHI_SLOT_IN) return pack_slot(n->op->name, s, pair, n->edge[s->index].value);
    rsh_value *leaf = rshi_value_new(payload);
    if (!leaf) return rshi_nomem();
    rshi_payload_hold(payload);
    rsh_status st = pack_slot(n->op->name, s, pair, leaf);
    rsh_value_free(leaf);
    return st;
}

static rshi_payload *payload_of(const rshi_entry *n, const rshi_slot *s) {
    if (s->kind == RSHI_SLOT_TENSOR) return s->payload;
    const rsh_value *v = s->kind == RSHI_SLOT_IN ? n->edge[s->index].value : n->out[s->index].value;
    return v ? v->payload : NULL;
}

/* If the op works on parts of a value, hooks must not mistake its own tensors for plain ones. */
static void read_as_output(const rshi_entry *n, rshi_payload *own) {
    const rshi_payload *out = n->nout && n->out[0].value ? n->out[0].value->payload : NULL;
    if (out && out->kind) rshi_payload_set_kind(own, out->kind, out->kind_data);
}

static rsh_status fill_slot(rshi_entry *n, rshi_slot *s) {
    rshi_payload *payload = payload_of(n, s);
    if (!payload) return RSH_OK;
    rshi_hooks *pair = payload->list ? NULL : rshi_hooks_top();
    if (pair && s->kind == RSHI_SLOT_TENSOR) read_as_output(n, payload);
    if (pair) {
        rsh_status st = pack_payload(n, s, pair, payload);
        rshi_payload_drop(s->payload);
        s->payload = NULL;
        return st;
    }
    if (s->kind != RSHI_SLOT_TENSOR) s->payload = rshi_payload_hold(payload);
    s->version = rshi_payload_version(payload);
    return RSH_OK;
}

rsh_status rshi_slots_fill(rshi_entry *n) {
    for (int i = 0; i < n->nslots; i++) RSH_TRY(fill_slot(n, &n->slot[i]));
    return RSH_OK;
}

void rshi_slot_end(rshi_slot *s) {
    rshi_payload_drop(s->payload);
    rsh_value_free(s->unpacked);
    if (s->pair && s->pair->hooks.release) s->pair->hooks.release(s->pair->hooks.ctx, s->packed);
    rshi_hooks_drop(s->pair);
    if (s->form) {
        rshi_profile_end(s->form);
        rshi_profile_block_give(s->form);
    }
}

/* ---- in backward ---- */

static rsh_status unpack_slot(const char *who, const rshi_slot *s, rsh_value **out) {
    const rsh_saved_hooks *h = &s->pair->hooks;
    uint64_t sentences = rshi_sentences();
    rsh_value *v = NULL;
    uint64_t calls = rshi_calls_of(h->comm);
    rsh_status st = h->unpack(h->ctx, s->packed, &v);
    if (st) rshi_tape_note_failure(rshi_tape_mine(), h->comm, calls);
    if (st) return hook_failed("unpack", who, st, sentences);
    RSH_REQUIRE(v, RSH_ETYPE, "the unpack hook must return a value, but it returned none for a tensor that %s saved",
                who);
    st = rshi_profile_match(s->form, v, who, "the result of the unpack hook");
    if (st) rsh_value_free(v);
    else *out = v;
    return st;
}

static rsh_status check_unchanged(const char *who, const rshi_slot *s) {
    uint64_t now = rshi_payload_version(s->payload);
    RSH_REQUIRE(now == s->version, RSH_ERUNTIME,
                "%s: a tensor that was saved for backward has been modified: expected version %llu, found %llu; do not "
                "write to it between forward and backward",
                who, (unsigned long long)s->version, (unsigned long long)now);
    return RSH_OK;
}

/* Makes the slot ready to be read: unpacks it, or checks that it has not changed. */
static rsh_status make_ready(rshi_entry *n, int slot) {
    RSH_REQUIRE(n->phase == RSHI_BACKWARD, RSH_ERUNTIME, "%s: saved tensors can be read only in backward", n->op->name);
    RSH_REQUIRE(slot >= 0 && slot < n->nslots, RSH_EINDEX, "%s: slot %d does not exist, there are %d saved slots",
                n->op->name, slot, n->nslots);
    rshi_slot *s = &n->slot[slot];
    if (s->pair) return s->unpacked ? RSH_OK : unpack_slot(n->op->name, s, &s->unpacked);
    return s->payload ? check_unchanged(n->op->name, s) : RSH_OK;
}

rsh_status rsh_call_saved(rsh_grad_call *c, int slot, const rsh_tensor **out) {
    RSH_NEEDS(c);
    RSH_NEEDS(out);
    RSH_TRY(make_ready(c, slot));
    rshi_slot *s = &c->slot[slot];
    const rshi_payload *p = s->unpacked ? s->unpacked->payload : s->payload;
    *out = p ? rshi_payload_part(p, c->part) : NULL;
    return RSH_OK;
}

rsh_status rsh_call_saved_value(rsh_grad_call *c, int slot, const rsh_value **out) {
    RSH_NEEDS(c);
    RSH_NEEDS(out);
    RSH_TRY(make_ready(c, slot));
    rshi_slot *s = &c->slot[slot];
    if (!s->unpacked && s->payload) {
        s->unpacked = rshi_value_new(s->payload);
        if (!s->unpacked) return rshi_nomem();
        rshi_payload_hold(s->payload);
    }
    *out = s->unpacked;
    return RSH_OK;
}

/* ---- prefetching ---- */

bool rshi_slot_is_ahead(const rshi_slot *s) { return s->fetched && !s->unpacked; }

static void forget_slot(rshi_slot *s) {
    if (rshi_slot_is_ahead(s) && s->pair->hooks.forget) s->pair->hooks.forget(s->pair->hooks.ctx, s->packed);
    s->fetched = false;
}

void rshi_slots_forget(rshi_entry *n) {
    for (int i = 0; i < n->nslots; i++) {
        forget_slot(&n->slot[i]);
        rsh_value_free(n->slot[i].unpacked);
        n->slot[i].unpacked = NULL;
    }
}

static rsh_status prefetch_slot(const char *who, rshi_slot *s) {
    if (!s->pair || !s->pair->hooks.prefetch || s->fetched) return RSH_OK;
    const rsh_saved_hooks *h = &s->pair->hooks;
    uint64_t sentences = rshi_sentences(), calls = rshi_calls_of(h->comm);
    rsh_status st = h->prefetch(h->ctx, s->packed);
    s->fetched = !st;
    if (st) rshi_tape_note_failure(rshi_tape_mine(), h->comm, calls);
    return st ? hook_failed("prefetch", who, st, sentences) : RSH_OK;
}

rsh_status rshi_slots_prefetch(rshi_entry *n) {
    for (int i = 0; i < n->nslots; i++) RSH_TRY(prefetch_slot(n->op->name, &n->slot[i]));
    return RSH_OK;
}

/* ---- slots outside of ops ---- */

struct rsh_saved {
    rshi_slot slot;
};

static rsh_status fill_alone(rshi_slot *s, rsh_value *v) {
    rshi_hooks *pair = rshi_hooks_top();
    if (pair) return pack_slot("rsh_saved_new", s, pair, v);
    s->payload = rshi_payload_hold(v->payload);
    s->version = rshi_payload_version(v->payload);
    return RSH_OK;
}

rsh_status rsh_saved_new(rsh_value *v, rsh_saved **out) {
    RSH_NEEDS(v);
    RSH_NEEDS(out);
    rsh_saved *s = RSHI_NEW(rsh_saved);
    if (!s) return rshi_nomem();
    *s = (rsh_saved){{.kind = RSHI_SLOT_IN}};
    rsh_status st = fill_alone(&s->slot, v);
    if (st) rsh_saved_free(s);
    else *out = s;
    return st;
}

rsh_status rsh_saved_read(const rsh_saved *s, rsh_value **out) {
    RSH_NEEDS(s);
    RSH_NEEDS(out);
    if (s->slot.pair) {
        RSH_TRY(unpack_slot("rsh_saved_new", &s->slot, out));
        ((rsh_saved *)s)->slot.fetched =
            false; /* the prefetched value has been read; the flag is not part of the saved state */
        return RSH_OK;
    }
    RSH_TRY(check_unchanged("rsh_saved_read", &s->slot));
    rsh_value *v = rshi_value_new(s->slot.payload);
    if (!v) return rshi_nomem();
    rshi_payload_hold(s->slot.payload);
    *out = v;
    return RSH_OK;
}

rsh_status rsh_saved_prefetch(rsh_saved *s) {
    RSH_NEEDS(s);
    return prefetch_slot("rsh_saved_new", &s->slot);
}

void rsh_saved_forget(rsh_saved *s) {
    if (s) forget_slot(&s->slot);
}

rsh_comm *rsh_saved_comm(const rsh_saved *s) { return s && s->slot.pair ? s->slot.pair->hooks.comm : NULL; }

void rsh_saved_free(rsh_saved *s) {
    if (!s) return;
    forget_slot(&s->slot);
    rshi_slot_end(&s->slot);
    rshi_free(s);
}
