/* Torch shards: PyTorch's sharded safetensors files, with DCP_SHARDING_INFO. */
#include "ckpt/ckpt.h"

static bool detect(const rshi_ckpt_place *place) {
    (void)place;
    return false;
}

static rsh_status read_all(const rshi_ckpt_place *place, rsh_ckpt *c) {
    (void)c;
    return rshi_fail(RSH_EUNSUP, "%s: sharded safetensors of PyTorch are not read", place->path);
}

const rshi_ckpt_kind rshi_kind_torch_shards = {"sharded safetensors of PyTorch", detect, read_all};
