# Files for checkpoint-workflows.md: small models, and files that PyTorch wrote or that follow from its source.
[ -d llama ] || python3 "$ROOT/tests/pages/workflows.py" .
[ -f llama-q4-00001-of-00003.gguf ] || python3 "$ROOT/tests/pages/gguf.py" llama-q4 3
if [ ! -d fsdp ]; then
    mkdir fsdp megatron deepspeed dcp orbax
    cp "$ROOT"/tests/ckpt/torch/sharded/*.pt fsdp
    cp -r "$ROOT"/tests/ckpt/dcp/mcore/. megatron
    cp -r "$ROOT"/tests/ckpt/zero/stage3/. deepspeed
    cp -r "$ROOT"/tests/ckpt/dcp/4/. dcp
    mkdir orbax/d && touch orbax/_METADATA orbax/_CHECKPOINT_METADATA orbax/manifest.ocdbt
    cp "$ROOT"/examples/rules/*.rules .
    sed 's/interleave(0, 8, \(.*\), 512, 128, 128)  \[_\/tp%768, _\]/interleave(0, 4, \1, 128, 128, 128)  [_\/tp%384, _]/' \
        hf-llama-3-8b-to-megatron.rules > hf-to-megatron.rules
    printf 'model.layers.{i}.weight = unstack(0, decoder.layers.weight)\n' > megatron-to-hf.rules
    printf '{n*}.qkv_proj.weight = cat(0, model.{n*}.{q,k,v}_proj.weight)\n{n*}.gate_up_proj.weight = cat(0, model.{n*}.{gate,up}_proj.weight)\nmodel.{n*} -> {n*}\nlm_head.weight\n' > fuse.rules
fi
