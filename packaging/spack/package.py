# Spack recipe for reshard.  It was written from Spack's documentation and has not been run: the project's machines have
# no network.  Put it into a repository of your own as packages/reshard/package.py, and please report what fails.
from spack.package import *


class Reshard(CMakePackage):
    """Plans and runs moves of N-D tensors between any two sharded layouts, in memory and in checkpoint files."""

    homepage = "https://reshard.example"
    git = "https://reshard.example/reshard.git"

    license("MIT")

    version("main", branch="main")

    variant("mpi", default=True, description="Build libreshard-mpi, the MPI engine")
    variant("nn", default=False, description="Build libreshard-nn, differentiable ops and modules")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3:", type="build")
    depends_on("xxhash", type="build")
    depends_on("jansson")
    depends_on("mpi", when="+mpi")
    depends_on("openblas", when="+nn")

    def cmake_args(self):
        args = [
            self.define_from_variant("RESHARD_MPI", "mpi"),
            self.define_from_variant("RESHARD_NN", "nn"),
            self.define("RESHARD_TESTS", False),
            self.define("RESHARD_BENCH", False),
        ]
        if self.spec.satisfies("+mpi"):
            args.append(self.define("RESHARD_MPICC", self.spec["mpi"].mpicc))
        return args
