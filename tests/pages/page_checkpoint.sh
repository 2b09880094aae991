# Files for checkpoint.md: a model, rules that cut it for four ranks, and the rank files of another tool.
[ -d model ] || python3 "$ROOT/tests/pages/model.py" model
[ -f four.rules ] || printf 'mesh tp=4\n*.q_proj.weight    [_/tp%%128, _]\n*.o_proj.weight    [_, _/tp%%128]\n*                  [...]\n' > four.rules
if [ ! -d vllm-state ]; then
    printf 'mesh tp=2\nfiles model-rank-{rank}-part-{part}.safetensors\n*.up_proj.weight [_/tp, _]\n* [...]\n' > vllm.rules
    sed 's/-part-{part}/-part-0/' vllm.rules > cut.rules
    reshard convert model vllm-state --to cut.rules > /dev/null
fi
if [ ! -d state ]; then
    printf 'mesh tp=2\n{n*}.qk_proj.weight = cat(0, {n*}.{q,k}_proj.weight) [(_|_)/tp%%128, _]\n* [...]\n' > fused.rules
    reshard convert model state --to fused.rules > /dev/null
fi
if [ ! -d global_step_100 ]; then # files that PyTorch wrote
    mkdir -p global_step_100/actor run
    cp "$ROOT"/tests/ckpt/torch/sharded/*.pt global_step_100/actor
    cp "$ROOT/tests/ckpt/torch/tensor.pth" pytorch_model.bin
    cp -r "$ROOT"/tests/ckpt/dcp/mcore/* run
    cp -r "$ROOT/tests/ckpt/zero/stage2" checkpoints # as DeepSpeed writes it
fi
[ -f model-00001-of-00003.gguf ] || python3 "$ROOT/tests/pages/gguf.py" model 3
# elsewhere: reshard convert state/ model/ --from hf-llama-to-vllm.rules: tests/ckpt/check_models.py undoes every ready map
