/* Other MPI: checks the errors of libreshard-mpi in a process whose MPI reports a given version.
 *
 *   other_mpi VERSION FAMILY        prints what rsh_mpi_check(FAMILY) returns if MPI_Get_library_version returns
 *                                 VERSION */
#include <reshard/mpi_world.h>

#include <stdio.h>
#include <string.h>

static const char *version;

__attribute__((visibility("default"))) int MPI_Get_library_version(char *text, int *length) {
    strcpy(text, version);
    *length = (int)strlen(version);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    version = argv[1];
    rsh_comm *comm = NULL;
    rsh_status st = rsh_mpi_check(argv[2]);
    printf("%s: %s\n", rsh_status_name(st), st ? rsh_error_detail() : "");
    return rsh_comm_mpi_f(12345, &comm) == RSH_OK; /* an invalid communicator, or no MPI: an error instead of a crash */
}
