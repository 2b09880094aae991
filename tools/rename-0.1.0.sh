#!/bin/sh
# Renames what the public headers called differently before version 0.1.0, in the source tree of a program.
#
#   sh tools/rename-0.1.0.sh DIR...          rewrites files in place
#   sh tools/rename-0.1.0.sh --check DIR...  changes nothing, lists the places with an old name; exit 1 if there are any
#   sh tools/rename-0.1.0.sh --list          prints the table, "old new" on each line
#
# In a git tree it reads the files that git knows, elsewhere all files; of these, sources, scripts and documents (see
# `is_text`), except CHANGELOG.md and itself.  Whole identifiers are replaced, so running it again changes nothing.
#
# Some changes are more than another word:
#   rsh_mesh_init(parent, ndim, shape, names, out)  is  rsh_mesh_new(parent, ndim, shape, NULL, names, out)
#   rsh_group_agree(group, status)                  is  rsh_comm_agree(rsh_group_comm(group), status); rsh_group_agree did
#     nothing on ranks outside the group, which have no comm: such ranks must not make the call
#   options.partly of rsh_compare_opts              is  options.allow_missing
#   #include <reshard.h>                            is  <reshard/train.h> in files that use gradients, meshes, DTensors or
#     stashes and include no header of these
#   RSH_DTYPE_COUNT                                 is  RSH_NDTYPES behind "<", "[" and "%", and RSH_DTYPE_NONE elsewhere
#   rsh_exec_stats s;                               is  rsh_exec_stats s = RSH_EXEC_STATS_INIT, and so for
#     rsh_plan_totals, rsh_rank_totals, rsh_cache_stats, rsh_ckpt_entry, rsh_convert_report, rsh_load_stats,
#     rsh_ckpt_difference and rsh_simulation
# What it cannot change: members and arrays of these types, and rsh_grad_apply_opts, start from the macros too;
# rsh_bag_opts.rows is a pointer; members `reading` and `what` of rsh_grad_apply_opts are `kind` and `kind_data`.
# Removed: rsh_dtensor_uniform and rsh_dtensor_normal (rsh_dtensor_full, then rsh_sharded_uniform or _normal of
# rsh_value_sharded), rsh_tensor_empty_on, rsh_tensor_wrap_on and rsh_tensor_device (tensors are in main memory),
# rsh_device_equal, RSH_CREATE_GRAPH (was not supported), RSH_NO_DIM (do not call rsh_input_reshard then).
set -eu

table() {
    cat <<'EOF'
rsh_value_read rsh_value_set_kind
rsh_value_reading rsh_value_get_kind
rsh_reading rsh_value_kind
rsh_grad_as rsh_grad_apply_opts
rsh_grad_apply_as rsh_grad_apply_with
rsh_value_take rsh_value_adopt_tensor
rsh_value_take_sharded rsh_value_adopt_sharded
rsh_value_share rsh_value_share_tensor
rsh_value_tag rsh_value_from_local
rsh_value_untag rsh_value_to_local
rsh_call_needs rsh_call_needs_input_grad
rsh_call_in rsh_call_input
rsh_call_in_value rsh_call_input_value
rsh_call_out rsh_call_set_output
rsh_call_out_value rsh_call_set_output_value
rsh_call_out_layout rsh_call_output_layout
rsh_call_no_grad rsh_call_mark_non_differentiable
rsh_call_save_in rsh_call_save_input
rsh_call_save_out rsh_call_save_output
rsh_call_grad rsh_call_output_grad
rsh_call_grad_value rsh_call_output_grad_value
rsh_call_give rsh_call_set_input_grad
rsh_call_give_value rsh_call_set_input_grad_value
rsh_call_pass rsh_call_pass_grad
rsh_local rsh_local_exec
rsh_local_bind rsh_local_exec_bind
rsh_local_run rsh_local_exec_run
rsh_local_free rsh_local_exec_free
rsh_local_opts rsh_from_local_opts
RSH_LOCAL_OPTS_INIT RSH_FROM_LOCAL_OPTS_INIT
rsh_mesh_init rsh_mesh_new
rsh_mesh_name rsh_mesh_dim_name
rsh_mesh_find rsh_mesh_find_dim
rsh_mesh_numbers rsh_mesh_numbering
rsh_replicate rsh_place_replicate
rsh_shard_on rsh_place_shard
rsh_partial_of rsh_place_partial
rsh_rule rsh_cut_rule
RSH_RULE_CHUNK RSH_CUT_CHUNK
RSH_RULE_BALANCED RSH_CUT_BALANCED
RSH_RULE_CYCLIC RSH_CUT_CYCLIC
RSH_RULE_UNIT RSH_CUT_UNIT
RSH_RULE_SIZES RSH_CUT_SIZES
rsh_rules rsh_ckpt_rules
rsh_rules_parse rsh_ckpt_rules_parse
rsh_rules_read rsh_ckpt_rules_read
rsh_rules_free rsh_ckpt_rules_free
rsh_step_fn rsh_convert_step_fn
rsh_layout_index_set rsh_layout_each_range
rsh_layout_boxes rsh_layout_each_box
rsh_plan_sources rsh_plan_each_source
rsh_plan_destinations rsh_plan_each_destination
rsh_plan_matrix rsh_plan_each_pair
rsh_matrix_fn rsh_pair_fn
rsh_module_parameters rsh_module_each_parameter
rsh_module_buffers rsh_module_each_buffer
rsh_module_modules rsh_module_each_module
rsh_reduce rsh_reduce_order
rsh_plan_view rsh_rank_totals
rsh_plan_rank rsh_plan_get_rank_totals
rsh_plan_opts_of_comm rsh_plan_opts_from_comm
rsh_transfer_place rsh_transfer_offsets
rsh_print rsh_print_format
rsh_picture rsh_picture_format
rsh_gather rsh_sharded_gather
rsh_pool_cores rsh_usable_cores
rsh_simd rsh_copy_isa
rsh_comm_nodes rsh_comm_nnodes
rsh_group_agree rsh_comm_agree
rsh_tensor_bump rsh_tensor_bump_version
rsh_tensor_props_of rsh_tensor_get_props
rsh_torch_load_as rsh_torch_load_resharded
rsh_shard_module_by rsh_shard_module_with_planner
rsh_style_of rsh_style_make
rsh_layers_defer rsh_layers_defer_init
rsh_module_init rsh_module_materialize
rsh_random_get rsh_random_get_state
rsh_random_set rsh_random_set_state
rsh_random_next rsh_random_next_state
rsh_stash_cuts rsh_stash_would_cut
RSH_LOAD_PARTLY RSH_LOAD_NONSTRICT
rsh_value_visit rsh_value_fn
rsh_module_visit rsh_module_fn
rsh_ckpt_nothers rsh_ckpt_nnon_tensors
rsh_ckpt_get_other rsh_ckpt_get_non_tensor
rshi_lie rshi_file_tensor
rshi_lie_shape rshi_file_tensor_shape
rshi_deed rshi_window_mode
RSHI_DEED_CHECK RSHI_WINDOW_CHECK
RSHI_DEED_COMPARE RSHI_WINDOW_COMPARE
RSHI_DEED_COPY RSHI_WINDOW_COPY
RSHI_DEED_DIGEST RSHI_WINDOW_DIGEST
RSHI_DEED_WRITE RSHI_WINDOW_WRITE
rshi_half rshi_grouped_side
rshi_half_cell rshi_grouped_side_cell
rshi_half_fits rshi_grouped_side_fits
rshi_half_free rshi_grouped_side_free
rshi_half_holders rshi_grouped_side_holders
rshi_half_make rshi_grouped_side_make
rshi_clients rshi_comm_cache
rshi_clients_of rshi_comm_cache_of
rshi_clients_room rshi_comm_cache_room
EOF
}

program=$(cat <<'EOF'
function is_word(c) { return c ~ /[A-Za-z0-9_]/ }
# Length of the argument that starts at position i of s: up to a comma or closing bracket of the same depth.
function argument(s, i,    start, depth, c, quote) {
    for (start = i; i <= length(s); i++) {
        c = substr(s, i, 1)
        if (quote != "") {
            if (c == "\\") i++
            else if (c == quote) quote = ""
        } else if (c == "\"" || c == "'") quote = c
        else if (index("([{", c)) depth++
        else if (index(")]}", c)) { if (depth-- == 0) break }
        else if (c == "," && depth == 0) break
    }
    return i - start
}
# The text behind an old name, with the arguments of a call as the new function takes them.
function arguments(name, rest,    head, i, n) {
    if (!match(rest, /^[ \t]*\(/)) return rest
    i = RLENGTH + 1
    if (name == "rsh_group_agree") {
        n = argument(rest, i)
        return substr(rest, 1, i - 1) "rsh_group_comm(" substr(rest, i, n) ")" substr(rest, i + n)
    }
    for (n = 0; n < 3; n++) {
        i += argument(rest, i)
        if (substr(rest, i, 1) != ",") return rest
        i++
    }
    return substr(rest, 1, i - 1) " NULL," substr(rest, i)
}
# Does a source use what <reshard.h> does not have any more, without another header that has it?
function trains(s) {
    return s ~ /(^|[^A-Za-z0-9_])rsh_(mesh|place|dtensor|value|grad|call|saved|stash|ticket|rule)(_[a-z_]+)?[^A-Za-z0-9_]/ &&
        s !~ /<reshard\/(train|grad|mesh|dtensor|rule|stash|nn|nn\/[a-z]+)\.h>/
}
# Is the end of s inside the braces of a struct or union?  Looks back for the brace that is open there.
function in_struct(s,    i, depth, c) {
    for (i = length(s); i > 0; i--) {
        c = substr(s, i, 1)
        if (c == "}") depth++
        if (c == "{" && depth-- == 0) return substr(s, 1, i - 1) ~ /(struct|union)[ \t\n]*[A-Za-z0-9_]*[ \t\n]*$/
    }
    return 0
}
# The text behind the type of a result: variables without a value, or with {0}, start from the macro.
function initialised(name, rest,    init, declared) {
    init = toupper(name) "_INIT"
    if (match(rest, /^[ \t]+[A-Za-z0-9_]+ = \{0\}/)) {
        report(name " = {0}", init)
        return substr(rest, 1, RLENGTH - 3) init substr(rest, RLENGTH + 1)
    }
    if (!match(rest, /^[ \t]+[A-Za-z_][A-Za-z0-9_]*(,[ \t]*[A-Za-z_][A-Za-z0-9_]*)*;/)) return rest
    declared = substr(rest, 1, RLENGTH - 1); rest = substr(rest, RLENGTH)
    if (done !~ /(struct|typedef|extern)[ \t]*$/ && !in_struct(done)) {
        report(name declared, name declared " = " init)
        gsub(/[A-Za-z_][A-Za-z0-9_]*/, "& = " init, declared)
    }
    return declared rest
}
function report(name, better) { if (check) print file ":" line ": " name " is now " better; found = 1 }
function lines(s) { return gsub(/\n/, "\n", s) }
FNR == NR { if (NF == 2) new[$1] = $2; next }
{ text = text (FNR > 1 ? "\n" : "") $0 }
END {
    split("plan_totals rank_totals exec_stats cache_stats ckpt_entry convert_report load_stats ckpt_difference " \
          "simulation", list, " ")
    for (i in list) sized["rsh_" list[i]]
    done = ""; line = 1
    while (match(text, /[A-Za-z_][A-Za-z0-9_]*/)) {
        before = substr(text, 1, RSTART - 1); name = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        line += lines(before); done = done before
        if (name == "partly" && code && done ~ /(\.|->)$/) { report(name, "allow_missing"); name = "allow_missing" }
        else if (name == "RSH_DTYPE_COUNT") { # a bound, or "no dtype"
            name = done ~ /[[<%][ \t]*$/ ? "RSH_NDTYPES" : "RSH_DTYPE_NONE"
            report("RSH_DTYPE_COUNT", name)
        } else if (name in new && done !~ /[0-9]$/) {
            report(name, new[name])
            if (name == "rsh_mesh_init" || name == "rsh_group_agree") text = arguments(name, text)
            name = new[name]
        }
        if (name in sized && code) text = initialised(name, text)
        done = done name
    }
    done = done text
    if (code && trains(done) && match(done, /#[ \t]*include[ \t]*<reshard\.h>/)) {
        line = 1 + lines(substr(done, 1, RSTART))
        report("<reshard.h>", "<reshard/train.h> for gradients, meshes, DTensors and stashes")
        sub(/<reshard\.h>/, "<reshard/train.h>", done)
    }
    if (check) exit found
    printf "%s%s", done, final ? "\n" : ""
}
EOF
)

is_text() {
    case ${1##*/} in
    CHANGELOG.md | rename-0.1.0.sh) return 1 ;;
    *.[ch] | *.cc | *.cpp | *.cxx | *.hh | *.hpp | *.hxx | *.cu | *.cuh | *.pyx | *.pxd | *.py | *.pyi | *.f90 | *.F90) ;;
    *.md | *.rst | *.tex | *.html | *.txt | *.in | *.sh | *.cmake | *.map | *.js | *.[1-9] | Makefile) ;;
    *) return 1 ;;
    esac
    [ -f "$1" ] && [ ! -h "$1" ]
}

files() {
    if git -C "$1" rev-parse --is-inside-work-tree > /dev/null 2>&1; then
        git -C "$1" -c core.quotePath=off ls-files --cached --others --exclude-standard | sed "s|^|$1/|"
    else
        find "$1" -type f
    fi
}

if [ "${1-}" = --list ]; then table; exit 0; fi
check=0
if [ "${1-}" = --check ]; then check=1; shift; fi
if [ $# -eq 0 ]; then
    echo "usage: rename-0.1.0.sh [--check] DIR..." >&2
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
table > "$work/table"
printf '%s\n' "$program" > "$work/program.awk"
awk '{ print $1 } END { print "partly\nRSH_DTYPE_COUNT\n<reshard.h>\n_totals\n_stats\nrsh_ckpt_\nrsh_convert_report\nrsh_simulation" }' "$work/table" > "$work/old"

for dir in "$@"; do
    [ -d "$dir" ] || { echo "rename-0.1.0.sh: no such directory: $dir" >&2; exit 2; }
    files "$dir"
done > "$work/files"
while IFS= read -r file; do is_text "$file" && grep -qF -f "$work/old" -- "$file" && printf '%s\n' "$file"; done \
    < "$work/files" > "$work/candidates" || :
status=0
while IFS= read -r file; do
    code=0
    case $file in *.[ch] | *.cc | *.cpp | *.cxx | *.hh | *.hpp | *.hxx | *.cu | *.cuh) code=1 ;; esac
    final=1
    [ -z "$(tail -c 1 -- "$file")" ] || final=0
    if LC_ALL=C awk -v file="$file" -v check=$check -v code=$code -v final=$final -f "$work/program.awk" \
        "$work/table" "$file" > "$work/out"; then
        [ $check = 1 ] || cmp -s "$work/out" "$file" || cat "$work/out" > "$file"
    else
        [ $check = 1 ] || { echo "rename-0.1.0.sh: cannot rewrite $file" >&2; exit 2; }
        cat "$work/out"
        status=1
    fi
done < "$work/candidates"
exit $status
