/* Saved: what an op keeps for its backward, as it is or packed by hooks. */
#include "grad/impl.h"

#include <string.h>

/* ---- in forward ---- */

/* Slots beyond those of the node's block move to a list of their own. */
static rsh_status grow(rshi_entry *n) {
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

/* Room for a tensor of every part. */
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
    RSH_TRY(grow(n));
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
                "%s: part %lld saves something else than part 0 did as slot %d", n->op->name, (long long)n->part,
                n->saving);
    if (t) s->payload->list[n->part] = t;
    return RSH_OK;
}

rsh_status rshi_slot_add(rshi_entry *n, rshi_slot_kind kind, int index, rsh_tensor *t) {
    if (n->phase != RSHI_FORWARD) {
        rsh_tensor_free(t);
        return rshi_fail(RSH_ERUNTIME, "%s: tensors are saved in forward", n->op->name);
    }
    rsh_status st = n->recorded ? (n->part ? add_next : add_first)(n, kind, index, t) : RSH_OK;
    if (st || !n->recorded) rsh_tensor_free(t);
    n->saving++;
    return st;
}

/* ---- packing ---- */

/* A hook that fails may leave no sentence. */
static rsh_status hook_failed(const char *which, const char *who, rsh_status st, uint64_t sentences) {
    if (rshi_sentences() != sentences) return st;
    return rshi_fail(st, "the %s hook failed for a tensor that %s saved", which, who);
}

static rsh_status call_pack(const char *who, rshi_slot *s, rshi_hooks *pair, rsh_value *v) {
    uint64_t before = rshi_payload_version(v->payload), sentences = rshi_sentences();
    rsh_status st = pair->hooks.pack(pair->hooks.ctx, v, &s->packed);
    if (st) return hook_failed("pack", who, st, sentences);
    s->pair = pair;
    pair->refs++;
    RSH_REQUIRE(rshi_payload_version(v->payload) == before, RSH_ERUNTIME,
                "a pack hook changed in place a tensor that %s saved", who);
    return RSH_OK;
}

static rsh_status pack(const char *who, rshi_slot *s, rshi_hooks *pair, rsh_value *v) {
    rshi_tape *tape = rshi_tape_mine();
    s->form = tape ? rshi_shelf_take(&tape->forms, sizeof *s->form) : NULL;
    if (!s->form) return rshi_nomem();
    rshi_profile_of(v->payload, s->form);
    bool was = rsh_grad_enable(false);
    rsh_status st = call_pack(who, s, pair, v);
    rsh_grad_enable(was);
    return st;
}

/* Hooks get an input itself, so that they see whether it is a parameter; of other things a leaf, which they may keep
 * without a circle of references. */
static rsh_status pack_payload(rshi_entry *n, rshi_slot *s, rshi_hooks *pair, rshi_payload *payload) {
    if (s->kind == RSHI_SLOT_IN) return pack(n->op->name, s, pair, n->edge[s->index].value);
    rsh_value *leaf = rshi_value_new(payload);
    if (!leaf) return rshi_nomem();
    rshi_payload_hold(payload);
    rsh_status st = pack(n->op->name, s, pair, leaf);
    rsh_value_free(leaf);
    return st;
}

static rshi_payload *payload_of(const rshi_entry *n, const rshi_slot *s) {
    if (s->kind == RSHI_SLOT_TENSOR) return s->payload;
    const rsh_value *v = s->kind == RSHI_SLOT_IN ? n->edge[s->index].value : n->out[s->index].value;
    return v ? v->payload : NULL;
}

/* Hooks must not take an op's own tensor for a plain one if the op works on parts of something. */
static void read_as_output(const rshi_entry *n, rshi_payload *own) {
    const rshi_payload *out = n->nout && n->out[0].value ? n->out[0].value->payload : NULL;
    if (out && out->kind) rshi_payload_set_kind(own, out->kind, out->kind_data);
}

static rsh_status fill(rshi_entry *n, rshi_slot *s) {
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
    for (int i = 0; i < n->nslots; i++) RSH_TRY(fill(n, &n->slot[i]));
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

static rsh_status unpack(const char *who, const rshi_slot *s, rsh_value **out) {
    const rsh_saved_hooks *h = &s->pair->hooks;
    uint64_t sentences = rshi_sentences();
    rsh_value *v = NULL;
    uint64_t calls = rshi_calls_of(h->comm);
    rsh_status st = h->unpack(h->ctx, s->packed, &v);
    if (st) rshi_tape_note_failure(rshi_tape_mine(), h->comm, calls);
    if (st) return hook_failed("unpack", who, st, sentences);
    RSH_REQUIRE(v, RSH_ETYPE, "the unpack hook gave nothing for a tensor that %s saved", who);
    st = rshi_profile_match(s->form, v, who, "what the unpack hook gave for a saved tensor");
    if (st) rsh_value_free(v);
    else *out = v;
    return st;
}

static rsh_status unchanged(const char *who, const rshi_slot *s) {
    uint64_t now = rshi_payload_version(s->payload);
    RSH_REQUIRE(now == s->version, RSH_ERUNTIME,
                "%s: a tensor that was saved for backward has changed since: it is at version %llu, and was saved at "
                "version %llu",
                who, (unsigned long long)now, (unsigned long long)s->version);
    return RSH_OK;
}

/* The slot is ready to be read: unpacked if it was packed, unchanged if it was not. */
static rsh_status ready(rshi_entry *n, int slot) {
    RSH_REQUIRE(n->phase == RSHI_BACKWARD, RSH_ERUNTIME, "%s: saved tensors are read in backward", n->op->name);
    RSH_REQUIRE(slot >= 0 && slot < n->nslots, RSH_EINDEX, "%s: slot %d is read; %d are saved", n->op->name, slot,
                n->nslots);
    rshi_slot *s = &n->slot[slot];
    if (s->pair) return s->unpacked ? RSH_OK : unpack(n->op->name, s, &s->unpacked);
    return s->payload ? unchanged(n->op->name, s) : RSH_OK;
}

rsh_status rsh_call_saved(rsh_grad_call *c, int slot, const rsh_tensor **out) {
    RSH_NEEDS(c);
    RSH_NEEDS(out);
    RSH_TRY(ready(c, slot));
    rshi_slot *s = &c->slot[slot];
    const rshi_payload *p = s->unpacked ? s->unpacked->payload : s->payload;
    *out = p ? rshi_payload_part(p, c->part) : NULL;
    return RSH_OK;
}

rsh_status rsh_call_saved_value(rsh_grad_call *c, int slot, const rsh_value **out) {
    RSH_NEEDS(c);
    RSH_NEEDS(out);
    RSH_TRY(ready(c, slot));
    rshi_slot *s = &c->slot[slot];
    if (!s->unpacked && s->payload) {
        s->unpacked = rshi_value_new(s->payload);
        if (!s->unpacked) return rshi_nomem();
        rshi_payload_hold(s->payload);
    }
    *out = s->unpacked;
    return RSH_OK;
}

/* ---- ahead of the op ---- */

bool rshi_slot_is_ahead(const rshi_slot *s) { return s->fetched && !s->unpacked; }

static void forget(rshi_slot *s) {
    if (rshi_slot_is_ahead(s) && s->pair->hooks.forget) s->pair->hooks.forget(s->pair->hooks.ctx, s->packed);
    s->fetched = false;
}

void rshi_slots_forget(rshi_entry *n) {
    for (int i = 0; i < n->nslots; i++) {
        forget(&n->slot[i]);
        rsh_value_free(n->slot[i].unpacked);
        n->slot[i].unpacked = NULL;
    }
}

static rsh_status prefetch(const char *who, rshi_slot *s) {
    if (!s->pair || !s->pair->hooks.prefetch || s->fetched) return RSH_OK;
    const rsh_saved_hooks *h = &s->pair->hooks;
    uint64_t sentences = rshi_sentences(), calls = rshi_calls_of(h->comm);
    rsh_status st = h->prefetch(h->ctx, s->packed);
    s->fetched = !st;
    if (st) rshi_tape_note_failure(rshi_tape_mine(), h->comm, calls);
    return st ? hook_failed("prefetch", who, st, sentences) : RSH_OK;
}

rsh_status rshi_slots_prefetch(rshi_entry *n) {
    for (int i = 0; i < n->nslots; i++) RSH_TRY(prefetch(n->op->name, &n->slot[i]));
    return RSH_OK;
}

/* ---- a slot outside of ops ---- */

struct rsh_saved {
    rshi_slot slot;
};

static rsh_status fill_alone(rshi_slot *s, rsh_value *v) {
    rshi_hooks *pair = rshi_hooks_top();
    if (pair) return pack("rsh_saved_new", s, pair, v);
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
        RSH_TRY(unpack("rsh_saved_new", &s->slot, out));
        ((rsh_saved *)s)->slot.fetched = false; /* what was begun is read: the mark is not part of what was saved */
        return RSH_OK;
    }
    RSH_TRY(unchanged("rsh_saved_read", &s->slot));
    rsh_value *v = rshi_value_new(s->slot.payload);
    if (!v) return rshi_nomem();
    rshi_payload_hold(s->slot.payload);
    *out = v;
    return RSH_OK;
}

rsh_status rsh_saved_prefetch(rsh_saved *s) {
    RSH_NEEDS(s);
    return prefetch("rsh_saved_new", &s->slot);
}

void rsh_saved_forget(rsh_saved *s) {
    if (s) forget(&s->slot);
}

rsh_comm *rsh_saved_comm(const rsh_saved *s) { return s && s->slot.pair ? s->slot.pair->hooks.comm : NULL; }

void rsh_saved_free(rsh_saved *s) {
    if (!s) return;
    forget(&s->slot);
    rshi_slot_end(&s->slot);
    rshi_free(s);
}
