/* MPI: a comm on a communicator of mpi4py, by libreshard-mpi, which is loaded on first use.
 *
 * Neither <mpi.h> nor mpi4py's headers are needed.  mpi4py gives the address of the handle; its size tells whether it
 * is a pointer (Open MPI) or an int (MPICH). */
#include "py_comm.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define VERSION_BYTES 8192 /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH */

typedef rsh_status (*open_pointer)(void *comm, rsh_comm **out);
typedef rsh_status (*open_int)(int comm, rsh_comm **out);
typedef int (*version_fn)(char *text, int *length);

/* Beside the core library, or where the system looks. */
static void *load_library(void) {
    char path[PATH_MAX], soname[64];
    Dl_info core;
    snprintf(soname, sizeof soname, "libreshard-mpi.so.%d.%d", RSH_VERSION_MAJOR, RSH_VERSION_MINOR);
    const char *file = dladdr((void *)(uintptr_t)rsh_version, &core) ? core.dli_fname : NULL;
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (slash && snprintf(path, sizeof path, "%.*s/%s", (int)(slash - file), file, soname) < PATH_MAX) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library) return library;
    }
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        PyErr_Format(PyExc_NotImplementedError, "cannot load %s: %s; build reshard with an MPI", soname, dlerror());
    return library;
}

/* The first line says which MPI it is. */
static void first_line(char *text) {
    char *end = strpbrk(text, "\n,");
    if (end) *end = 0;
}

static int check_same_mpi(PyObject *mpi, void *library) {
    char ours[VERSION_BYTES] = "";
    int length = 0;
    version_fn version = (version_fn)(uintptr_t)dlsym(library, "MPI_Get_library_version");
    PyObject *text = PyObject_CallMethod(mpi, "Get_library_version", NULL);
    const char *theirs = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (theirs && version) version(ours, &length);
    bool same =
        theirs && !strncmp(ours, theirs, strlen(ours) < strlen(theirs) ? strlen(ours) : strlen(theirs)) && *ours;
    if (theirs && !same) {
        char other[256];
        snprintf(other, sizeof other, "%s", theirs);
        first_line(other);
        first_line(ours);
        PyErr_Format(PyExc_NotImplementedError,
                     "mpi4py uses \"%s\", but libreshard-mpi was built for \"%s\"; build both with the same MPI", other,
                     ours);
    }
    Py_XDECREF(text);
    return same ? 0 : -1;
}

typedef struct handle {
    void *address;
    size_t size;
} handle;

static int read_handle(PyObject *mpi, PyObject *comm, handle *out) {
    PyObject *address = PyObject_CallMethod(mpi, "_addressof", "O", comm);
    PyObject *size = address ? PyObject_CallMethod(mpi, "_sizeof", "O", comm) : NULL;
    if (size) {
        out->address = PyLong_AsVoidPtr(address);
        out->size = PyLong_AsSize_t(size);
    }
    Py_XDECREF(address);
    Py_XDECREF(size);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *open_comm(void *library, handle h) {
    rsh_comm *c = NULL;
    rsh_status st;
    void *function = dlsym(library, "rsh_comm_mpi");
    if (!function || (h.size != sizeof(void *) && h.size != sizeof(int)))
        return PyErr_Format(PyExc_NotImplementedError, "MPI has handles of %zu bytes, expected 4 or 8", h.size);
    Py_BEGIN_ALLOW_THREADS if (h.size == sizeof(void *)) st =
        ((open_pointer)(uintptr_t)function)(*(void **)h.address, &c);
    else st = ((open_int)(uintptr_t)function)(*(int *)h.address, &c);
    Py_END_ALLOW_THREADS return st ? py_raise(st) : py_comm_wrap(c, true);
}

static PyObject *module_of(PyObject *comm) {
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *mpi = modules ? PyDict_GetItemString(modules, "mpi4py.MPI") : NULL;
    PyObject *type = mpi ? PyObject_GetAttrString(mpi, "Comm") : NULL;
    int is = type ? PyObject_IsInstance(comm, type) : 0;
    Py_XDECREF(type);
    if (is == 1) return mpi;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError,
                     "Comm takes a communicator of mpi4py, got %R; without MPI use reshard.run or reshard.join",
                     (PyObject *)Py_TYPE(comm));
    return NULL;
}

PyObject *py_comm_from_mpi(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"mpi_comm", NULL};
    static void *library;
    PyObject *comm;
    handle h = {NULL, 0};
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:Comm", names, &comm)) return NULL;
    PyObject *mpi = module_of(comm);
    if (!mpi) return NULL;
    if (!library) library = load_library();
    if (!library || check_same_mpi(mpi, library) || read_handle(mpi, comm, &h)) return NULL;
    return open_comm(library, h);
}
