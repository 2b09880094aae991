#!/usr/bin/env python3
"""Door calls: every public function, called with each pointer NULL and each enum out of range, as C for test_doors.c.

    door_calls.py ROOT core|mpi|nn door_calls.inc

The functions are those of the core library, for test_doors.c, with mpi those of libreshard-mpi too, or those of
libreshard-nn, for test_doors_nn.c.  They come from the public headers, so that none can be forgotten.  Beside the argument under test a call gets valid
ones: by the parameter's type from VALUES, or by function and parameter from SPECIAL.  The answer must be RSH_EVALUE with a
sentence, NULL, false or 0, or what answers.txt says.  A type without a value, and a line of answers.txt that no function
has, is an error.
"""
import os
import re
import sys

sys.dont_write_bytecode = True
root = sys.argv[1]
sys.path.insert(0, os.path.join(root, "tools"))
from c_text import bare, files, read

LIBRARY = sys.argv[2]
ALL_HEADERS = files(root, "include/reshard", ends=".h")


def library_of(path):
    if path.startswith("include/reshard/nn"):
        return "nn"
    if path == "include/reshard/scalapack.h":
        return "scalapack"
    return "mpi" if os.path.basename(path).startswith("mpi") else "core"


HEADERS = [p for p in ALL_HEADERS if library_of(p) == LIBRARY or (LIBRARY, library_of(p)) == ("mpi", "core")]
ENUMS = {name for path in HEADERS for name in re.findall(r"typedef enum (\w+)", read(root, path))}
CALLBACKS = {
    "deleter": "deleter_fn",
    "drop": "drop_fn",
    "fn": "group_fn",
    "rsh_box_fn": "box_fn",
    "rsh_forward_hook_fn": "forward_hook",
    "rsh_pair_fn": "matrix_fn", "rsh_rank_bytes_fn": "rank_bytes_fn",
    "rsh_module_fn": "module_visit",
    "rsh_neighbour_fn": "neighbour_fn",
    "rsh_pre_hook_fn": "pre_hook",
    "rsh_progress_fn": "progress_fn",
    "rsh_range_fn": "range_fn",
    "rsh_rank_fn": "NULL",
    "rsh_stage_fn": "stage_fn",
    "rsh_convert_step_fn": "step_fn",
    "rsh_state_hook_fn": "state_hook",
    "rsh_value_fn": "value_visit",
    "task": "task_fn",
}
SCALARS = {
    "MPI_Comm": "MPI_COMM_SELF",
    "bool": "false",
    "double": "0",
    "int": "1",
    "int64_t": "1",
    "rsh_derivative": "RSH_DERIVATIVE_ADJOINT",
    "rsh_device": "(rsh_device){RSH_DEVICE_CPU, -1}",
    "rsh_digest": "(rsh_digest){0, 0}",
    "rsh_dtype": "RSH_F32",
    "rsh_fan": "RSH_FAN_IN",
    "rsh_grad_kind": "RSH_GRAD_PARTIAL",
    "rsh_gelu": "RSH_GELU_ERF",
    "rsh_hook_when": "RSH_HOOK_ON_SUCCESS",
    "rsh_mesh_numbering": "RSH_MESH_POSITIONS",
    "rsh_nonlinearity": "RSH_RELU",
    "rsh_op": "RSH_OP_SUM",
    "rsh_picture_format": "RSH_PICTURE_TEXT",
    "rsh_print_format": "RSH_PRINT_TEXT",
    "rsh_random_state": "(rsh_random_state){0, 0}",
    "rsh_loss_reduction": "RSH_LOSS_MEAN",
    "rsh_resource": "RSH_RESOURCE_CORE",
    "rsh_status": "RSH_OK",
    "size_t": "4",
    "uint64_t": "1",
    "unsigned": "0",
}
NAMED = {"ndim": "2", "noffsets": "2", "nsizes": "2", "rank": "0", "root": "0", "src_rank": "0", "dst": "0", "dim": "0", "tensor": "0",
         "part": "0", "offset": "0", "global": "0", "i": "0", "a": "0", "b": "1", "colour": "0", "key": "0"}
# Types whose values are handles that test_doors.c has made; `T` and `const T` alike.
HANDLES = {
    "rsh_ckpt",
    "rsh_comm",
    "rsh_exec",
    "rsh_form",
    "rsh_grad_call",
    "rsh_group",
    "rsh_layout",
    "rsh_local_exec",
    "rsh_mesh",
    "rsh_module",
    "rsh_optimizer",
    "rsh_partial",
    "rsh_plan",
    "rsh_pool",
    "rsh_ckpt_rules",
    "rsh_saved",
    "rsh_sharded",
    "rsh_sharding_plan",
    "rsh_spec",
    "rsh_stash",
    "rsh_state_dict",
    "rsh_tensor",
    "rsh_tensor_meta",
    "rsh_ticket",
    "rsh_torch_tensor",
    "rsh_transit",
    "rsh_value",
    "rsh_value_transit",
}
FREES = {name: name + "_free" for name in HANDLES | {"rsh_objects", "rsh_share"}} | {"rsh_torch_tensor": "rsh_torch_free"}
# Types whose values test_doors.c has as objects.
OBJECTS = {
    "rsh_compare_opts",
    "rsh_convert_opts",
    "rsh_save_opts",
    "rsh_adam_opts",
    "rsh_attention_opts",
    "rsh_bag_opts",
    "rsh_cross_entropy_opts",
    "rsh_embedding_opts",
    "rsh_grad_apply_opts",
    "rsh_grad_op",
    "rsh_distribution",
    "rsh_input_reshard_opts",
    "rsh_parallel_entry",
    "rsh_layout_desc",
    "rsh_from_local_opts",
    "rsh_machine",
    "rsh_memory",
    "rsh_message",
    "rsh_module_kind",
    "rsh_module_load_opts",
    "rsh_module_save_opts",
    "rsh_param_group",
    "rsh_named_input",
    "rsh_nn_opts",
    "rsh_place",
    "rsh_remote_device",
    "rsh_plan_opts",
    "rsh_random",
    "rsh_value_kind",
    "rsh_saved_hooks",
    "rsh_schedule",
    "rsh_sgd_opts",
    "rsh_shard",
    "rsh_shard_meta",
    "rsh_sharder",
    "rsh_sharding_planner",
    "rsh_sink",
    "rsh_spec_kind",
    "rsh_tensor_props",
    "rsh_torch_opts",
    "rsh_transfer",
    "rsh_transfer_end",
    "rsh_wire",
}
POINTERS = {
    "char": "have.room",
    "const char": "\"cpu\"",
    "const char *const": "have.names",
    "const int": "have.ranks",
    "const int64_t": "have.shape",
    "const size_t": "have.sizes",
    "const void": "have.bytes",
    "const void *const": "have.states",
    "void": "have.room",
}
SPECIAL = {
    ("rsh_layout_parse", "text"): "\"f32[4, 4] on x=1\"", ("rsh_layout_parse_at", "text"): "\"f32[4, 4] on x=1\"",
    ("rsh_form_parse", "text"): "\"[_/x, _] on x=1\"", ("rsh_spec_parse", "text"): "\"chunk(0; rank:0/cpu)\"",
    ("rsh_dtype_parse", "text"): "\"f32\"", ("rsh_dtype_parse", "length"): "3",
    ("rsh_digest_parse", "text"): "\"d2:00000000000000000000000000000000\"", ("rsh_digest_add_box", "offsets"): "have.zeros",
    ("rsh_op_parse", "text"): "\"sum\"", ("rsh_op_parse", "length"): "3",
    ("rsh_ckpt_rules_parse", "text"): "\"* [...]\"", ("rsh_ckpt_rules_read", "path"): "have.rules_path", ("rsh_ckpt_open", "path"): "have.ckpt_path",
    ("rsh_ckpt_convert", "source"): "have.ckpt_path", ("rsh_ckpt_convert", "target"): "have.target_path",
    ("rsh_convert_preview", "source"): "have.ckpt_path", ("rsh_convert_preview", "target"): "have.target_path",
    ("rsh_ckpt_save", "path"): "have.saved_path", ("rsh_ckpt_save", "names"): "have.names", ("rsh_ckpt_load", "names"): "have.names",
    ("rsh_module_save", "path"): "\"/no such folder/model\"", ("rsh_module_load", "path"): "\"/no such folder/model\"",
    ("rsh_ckpt_load", "tensors"): "have.loaded", ("rsh_ckpt_read", "box"): "NULL",
    ("rsh_comm_shm", "name"): "\"doors\"",
    ("rsh_layout_local_offset", "index"): "have.zeros", ("rsh_layout_global_index", "index"): "have.index",
    ("rsh_tensor_narrow", "offsets"): "have.zeros", ("rsh_shard_from_tensor", "offsets"): "have.zeros",
    ("rsh_shard_meta_make", "offsets"): "have.zeros",
    ("rsh_tensor_wrap", "data"): "have.bytes", ("rsh_tensor_wrap", "strides"): "have.strides",
    ("rsh_tensor_view", "strides"): "have.strides",
    
    ("rsh_math_copy", "to"): "have.other_tensor", ("rsh_math_combine", "to"): "have.other_tensor",
    ("rsh_torch_load", "data"): "have.saved.data", ("rsh_torch_load", "bytes"): "have.saved.bytes",
    ("rsh_tensor_meta_load", "text"): "have.saved_meta.data", ("rsh_tensor_meta_load", "bytes"): "have.saved_meta.bytes",
    ("rsh_group_all_to_all_single", "out_splits"): "NULL", ("rsh_group_all_to_all_single", "in_splits"): "NULL",
    ("rsh_reshard_local_shard", "from"): "have.spec", ("rsh_reshard_local_shard", "to"): "have.other_spec",
    ("rsh_spec_chunk_dim", "ndim"): "2", ("rsh_spec_equal", "ndim"): "2", ("rsh_remote_device_check", "size"): "1",
    ("rsh_mesh_find_dim", "name"): "\"x\"",
    ("rsh_mesh_new", "ndim"): "1", ("rsh_mesh_new", "shape"): "have.one", ("rsh_mesh_new", "ranks"): "have.zeros",
    ("rsh_comm_shm", "size"): "1", ("rsh_chunk_split", "n"): "4",
    ("rsh_reshard_metadata", "by_rank"): "have.by_rank", ("rsh_reshuffle_local_shard", "by_rank"): "have.by_rank",
    ("rsh_reshard_local_shard", "by_rank"): "have.by_rank",
    ("rsh_value_reshard", "v"): "have.sharded_value", ("rsh_value_reshard_begin", "v"): "have.sharded_value", ("rsh_value_set_kind", "v"): "have.other_value",
    ("rsh_value_get_kind", "kind_data"): "NULL", ("rsh_fail", "sentence"): "\"a sentence\"",
    ("rsh_fail", "status"): "RSH_EVALUE",
    ("rsh_functional_all_to_all_single", "out_splits"): "NULL", ("rsh_functional_all_to_all_single", "in_splits"): "NULL",
    # these take ownership of their arguments, even if they fail
    ("rsh_call_set_output", "t"): "fresh_tensor()", ("rsh_call_save", "t"): "fresh_tensor()", ("rsh_call_set_input_grad", "t"): "fresh_tensor()",
    ("rsh_call_set_output_value", "v"): "fresh_value()", ("rsh_call_set_input_grad_value", "v"): "fresh_value()",
}
for name in ("rsh_exec_bind", "rsh_exec_run_on", "rsh_plan_run_local", "rsh_local_exec_bind"):
    SPECIAL[name, "dst"] = "&have.other_memory"
SPECIAL["rsh_ckpt_compare", "a"] = SPECIAL["rsh_ckpt_compare", "b"] = "have.rsh_ckpt"
SPECIAL["rsh_reshard_into", "dst"] = "have.other_sharded"
SPECIAL["rsh_torch_reshard_into", "out"] = SPECIAL["rsh_torch_copy", "dst"] = "have.other_torch"
for name in ("rsh_group_scatter", "rsh_group_reduce_scatter", "rsh_group_all_to_all_single"):
    SPECIAL[name, "out"] = "have.other_tensor"
for name in ("rsh_group_gather", "rsh_group_all_gather"):
    SPECIAL[name, "list"] = "have.other_rsh_tensor_list"
SPECIAL["rsh_group_all_to_all", "out"] = "have.other_rsh_tensor_list"
SPECIAL["rsh_torch_gather", "out"] = SPECIAL["rsh_torch_all_gather", "out"] = "have.other_tensor"
for name, parameter, value in (("bmm", "a", "have.batch"), ("bmm", "b", "have.batch"), ("where", "mask", "have.mask"), ("masked_fill", "mask", "have.mask"),
                               ("index_select", "index", "have.index"), ("embedding", "index", "have.index"), ("linear", "bias", "have.row"),
                               ("layer_norm", "weight", "have.row"), ("layer_norm", "bias", "have.row"), ("rms_norm", "weight", "have.row"),
                               ("cross_entropy", "target", "have.index"), ("split", "size", "4"), ("permute", "dims", "have.dims")):
    SPECIAL["rsh_nn_" + name, parameter] = value
SPECIAL["rsh_module_set_parameter", "name"] = SPECIAL["rsh_module_set_buffer", "name"] = SPECIAL["rsh_module_set_child", "name"] = "have.fresh_name()"
SPECIAL["rsh_distribute_module", "m"] = SPECIAL["rsh_parallelize_module", "m"] = "have.other_module"
for name in ("places", "redistribute", "redistribute_begin", "move", "to_local", "full_tensor", "part", "print"):
    SPECIAL["rsh_dtensor_" + name, "v"] = "have.dtensor"
SPECIAL["rsh_dtensor_redistribute", "places"] = SPECIAL["rsh_dtensor_to_local", "grads"] = SPECIAL["rsh_dtensor_part", "grads"] = SPECIAL["rsh_dtensor_full_tensor", "grads"] = "&have.rsh_place"
SPECIAL["rsh_shard_module", "plan"] = "have.empty_plan"


def split(arguments):
    depth, parts = 0, [""]
    for c in arguments:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip() not in ("", "void")]


# Structs that begin with struct_size start from their macros.
SIZED = {name: f"{name.upper()}_INIT" for name in (
    "rsh_plan_totals", "rsh_rank_totals", "rsh_exec_stats", "rsh_cache_stats", "rsh_ckpt_entry", "rsh_convert_report",
    "rsh_load_stats", "rsh_ckpt_difference", "rsh_simulation", "rsh_machine")}


class Parameter:
    def __init__(self, text):
        callback = re.match(r".*\(\*(\w+)\)\(.*\)$", text)
        array = re.match(r"(.*?)(\w+)\[\w*\]$", text)
        plain = re.match(r"(.*?)(\w+)$", text)
        self.name = (callback or array or plain).group(1 if callback else 2)
        kind = self.name if callback else (array or plain).group(1).strip()
        self.callback = kind in CALLBACKS
        self.pointer = bool(self.callback or array or kind.endswith("*"))
        self.kind = kind if self.callback else (kind if array else kind[:-1] if self.pointer else kind).strip()
        self.out = self.pointer and self.kind.endswith("*") and "*const" not in self.kind  # T **
        self.tried = (self.pointer and self.name != "ctx") or self.kind in ENUMS or self.kind == "MPI_Comm"

    def wrong(self):
        if self.kind == "MPI_Comm":
            return ["MPI_COMM_NULL"]
        return ["NULL"] if self.pointer else [f"({self.kind})99", f"({self.kind})-3"]

    def value(self, function):
        """(expression, statements before, statements after)"""
        if (function, self.name) in SPECIAL:
            return SPECIAL[function, self.name], "", ""
        if self.callback:
            return CALLBACKS[self.kind], "", ""
        if not self.pointer:
            if self.kind not in SCALARS:
                sys.exit(f"door_calls.py: no value for {self.kind} {self.name} of {function}")
            return NAMED[self.name] if self.kind in ("int", "int64_t") and self.name in NAMED else SCALARS[self.kind], "", ""
        if self.name == "ctx":
            return "NULL", "", ""
        if self.out:
            base = self.kind[:-1].strip()
            if base.startswith("const"):
                return f"&({base} *){{NULL}}", "", ""
            free = f"{FREES[base]}(got_{self.name}); "
            return f"&got_{self.name}", f"{base} *got_{self.name} = NULL; ", free
        base = re.sub(r"\bconst\b|\*", "", self.kind).strip()
        if base in HANDLES:
            return (f"have.{base}_list" if "*const" in self.kind else f"have.{base}"), "", ""
        if base in OBJECTS and (self.kind.startswith("const") or base == "rsh_plan_opts"):
            return f"&have.{base}", "", ""
        if self.kind in POINTERS:
            return POINTERS[self.kind], "", ""
        if base == "rsh_shard":
            return f"&got_{self.name}", f"rsh_shard got_{self.name} = {{0}}; ", f"rsh_shard_clear(&got_{self.name}); "
        if not self.kind.startswith("const") and "*" not in self.kind:
            return f"&({self.kind})" + SIZED.get(self.kind, "{0}"), "", ""
        sys.exit(f"door_calls.py: no value for {self.kind} *{self.name} of {function}")


def functions(headers):
    for path in headers:
        text = re.sub(r"(?m)^#.*(\\\n.*)*$", "", bare(read(root, path)))
        for declared in re.findall(r"RSH_API\s+([^;]*);", text):
            answer, name, arguments = re.match(r"(.*?)(rsh_\w+)\((.*)\)$", " ".join(declared.split())).groups()
            yield answer.strip(), name, [Parameter(p) for p in split(arguments)]


def answers():
    table = {}
    for line in read(root, "tests/doors/answers.txt").splitlines():
        words = line.split("#")[0].split(None, 2)
        if words:
            table[words[0], words[1]] = words[2]
    return table


def expectation(kind, asked):
    if kind == "void":
        return "{call}"
    if kind == "rsh_status":
        return "answers(" + (asked or "RSH_EVALUE") + ", {call})"
    if kind == "const char *" and asked:
        return f"assert_string_equal({{call}}, {asked})"
    if kind.endswith("*"):
        return "assert_null({call})" if not asked else f"assert_ptr_equal({{call}}, {asked})"
    if kind.startswith("rsh_") and kind not in ENUMS:
        return "(void){call}"
    return f"assert_true({{call}} == {asked or '0'})"


def main():
    table, tests, lines = answers(), [], []
    known = {(name, p.name) for _, name, parameters in functions(ALL_HEADERS) for p in parameters}
    elsewhere = known - {(name, p.name) for _, name, parameters in functions(HEADERS) for p in parameters}
    for kind, name, parameters in functions(HEADERS):
        body = []
        for under_test in (p for p in parameters if p.tried):
            asked = table.pop((name, under_test.name), None)
            if asked == "by hand":
                continue
            for wrong in under_test.wrong():
                values = [(wrong, "", "") if p is under_test else p.value(name) for p in parameters]
                call = f"{name}({', '.join(v[0] for v in values)})"
                body.append("    { " + "".join(v[1] for v in values) + expectation(kind, asked).format(call=call) + "; "
                            + "".join(v[2] for v in values) + "}")
        if body:
            lines.append(f"static void door_{name}(void **state) {{\n    (void)state;\n" + "\n".join(body) + "\n}")
            tests.append(f"    {{\"{name}\", door_{name}, NULL, NULL, NULL}},")
    gone = [" ".join(key) for key in list(table) + list(SPECIAL) if key not in elsewhere and (key in table or key not in known)]
    if gone:
        sys.exit("door_calls.py: no such function and parameter: " + ", ".join(gone))
    lines.append("static const struct CMUnitTest doors[] = {\n" + "\n".join(tests) + "\n};")
    with open(sys.argv[3], "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")


main()
