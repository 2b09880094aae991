/* mesh: meshes and placements, for the other rooms. */
#ifndef RESHARD_MESH_MESH_H
#define RESHARD_MESH_MESH_H

#include <reshard/mesh.h>

#include "base/base.h"

/* Data that another room attaches to a mesh for its lifetime. */
typedef struct rshi_mesh_notes {
    void *what;               /* NULL: nothing yet */
    void (*drop)(void *what); /* called when the mesh is freed */
} rshi_mesh_notes;
rshi_mesh_notes *rshi_mesh_notes_of(rsh_mesh *m);

/* Writes the placements of a layout that is known to have placements, like rsh_mesh_places.  Needs
 * no memory. */
void rshi_mesh_read_places(const rsh_layout *l, rsh_place *places);

#endif
