/* mesh: meshes and placements, for the other rooms. */
#ifndef RESHARD_MESH_MESH_H
#define RESHARD_MESH_MESH_H

#include <reshard/mesh.h>

#include "base/base.h"

#endif
