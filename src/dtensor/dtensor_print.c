/* Print: prints a DTensor with this rank's part. */
#include "dtensor/dtensor.h"

#include <reshard/math.h>

static rsh_status print_sizes(int n, const int64_t *sizes, const rsh_sink *sink) {
    RSH_TRY(rshi_sink_text(sink, "["));
    for (int d = 0; d < n; d++) RSH_TRY(rshi_sink_format(sink, "%s%lld", d ? ", " : "", (long long)sizes[d]));
    return rshi_sink_text(sink, "]");
}

rsh_status rsh_dtensor_print(const rsh_value *v, const rsh_sink *sink) {
    RSH_TRY(rshi_dtensor_require("rsh_dtensor_print", v));
    RSH_REQUIRE(sink && sink->write, RSH_EVALUE, "rsh_dtensor_print: sink is NULL");
    const rsh_mesh *mesh = rsh_dtensor_mesh(v);
    rsh_place places[RSH_MAX_AXES];
    RSH_TRY(rsh_dtensor_places(v, places));
    RSH_TRY(rshi_sink_format(sink, "DTensor %s", rsh_dtype_name(rsh_value_dtype(v))));
    RSH_TRY(print_sizes(rsh_value_ndim(v), rsh_value_shape(v), sink));
    RSH_TRY(rshi_sink_text(sink, " "));
    RSH_TRY(rsh_places_print(rsh_mesh_ndim(mesh), places, sink));
    RSH_TRY(rshi_sink_text(sink, " on a mesh of "));
    RSH_TRY(print_sizes(rsh_mesh_ndim(mesh), rsh_mesh_shape(mesh), sink));
    RSH_TRY(rshi_sink_text(sink, "; the part at "));
    RSH_TRY(print_sizes(rsh_mesh_ndim(mesh), rsh_mesh_coordinate(mesh), sink));
    RSH_TRY(rshi_sink_text(sink, ":\n"));
    for (int64_t i = 0; i < rsh_value_nparts(v); i++) {
        RSH_TRY(rsh_tensor_print(rsh_value_part(v, i), sink));
        RSH_TRY(rshi_sink_text(sink, "\n"));
    }
    return RSH_OK;
}
