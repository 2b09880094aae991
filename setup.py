"""Builds the extension module, the library and the command with CMake; pyproject.toml has the rest.

RESHARD_BUILD_FOLDER names a build folder of CMake that has them already; otherwise they are built in a new one.
"""
import os
import re
import shutil
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = os.path.dirname(os.path.abspath(__file__))
OPTIONS = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_INSTALL_LIBDIR=lib", "-DRESHARD_WHEEL=ON", "-DRESHARD_PYTHON=ON",
           "-DRESHARD_TESTS=OFF", "-DRESHARD_EXAMPLES=OFF", "-DRESHARD_BENCH=OFF"]


class CMakeBuild(build_ext):
    def run(self):
        folder = os.environ.get("RESHARD_BUILD_FOLDER")
        if not folder:
            folder = os.path.abspath(os.path.join(self.build_temp, "cmake"))
            subprocess.check_call(["cmake", "-S", ROOT, "-B", folder, *OPTIONS])
            subprocess.check_call(["cmake", "--build", folder, "--target", "python", f"-j{os.cpu_count() or 1}"])
        target = os.path.abspath(self.build_lib)
        subprocess.check_call(["cmake", "--install", folder, "--component", "python", "--prefix", target])
        self.tidy(os.path.join(target, "reshard", "lib"))

    def tidy(self, libraries):
        """Wheels have no links: each library gets the name by which it is loaded, and jansson comes along."""
        for name in os.listdir(libraries):
            path = os.path.join(libraries, name)
            if os.path.islink(path):
                os.replace(os.path.realpath(path), path)
        core = next(name for name in os.listdir(libraries) if name.startswith("libreshard.so"))
        needed = subprocess.run(["ldd", os.path.join(libraries, core)], capture_output=True, text=True).stdout
        found = re.search(r"(libjansson\S*) => (\S+)", needed)
        if found:
            shutil.copy(os.path.realpath(found.group(2)), os.path.join(libraries, found.group(1)))

    def get_outputs(self):
        return []


setup(ext_modules=[Extension("reshard._reshard", [], py_limited_api=True)], cmdclass={"build_ext": CMakeBuild},
      options={"bdist_wheel": {"py_limited_api": "cp311"}})
