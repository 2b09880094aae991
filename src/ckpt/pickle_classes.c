/* Pickle classes: the classes that the reader knows, with their names in all supported versions of PyTorch. */
#include "ckpt/pickle.h"

#include <string.h>

#define OLD "torch.distributed._shard.checkpoint."
#define NEW "torch.distributed.checkpoint."
#define PLACE(module, name, class)                                                                                     \
    {"torch.distributed.tensor" module, name, class}, {"torch.distributed._tensor" module, name, class}

static const struct {
    const char *module, *name;
    rshi_pickle_class class;
} classes[] = {
    {OLD "metadata", "Metadata", RSHI_CLASS_METADATA},
    {NEW "metadata", "Metadata", RSHI_CLASS_METADATA},
    {OLD "metadata", "TensorStorageMetadata", RSHI_CLASS_TENSOR_STORAGE},
    {NEW "metadata", "TensorStorageMetadata", RSHI_CLASS_TENSOR_STORAGE},
    {OLD "metadata", "ChunkStorageMetadata", RSHI_CLASS_CHUNK_STORAGE},
    {NEW "metadata", "ChunkStorageMetadata", RSHI_CLASS_CHUNK_STORAGE},
    {OLD "metadata", "BytesStorageMetadata", RSHI_CLASS_BYTES_STORAGE},
    {NEW "metadata", "BytesStorageMetadata", RSHI_CLASS_BYTES_STORAGE},
    {OLD "metadata", "MetadataIndex", RSHI_CLASS_INDEX},
    {NEW "metadata", "MetadataIndex", RSHI_CLASS_INDEX},
    {NEW "metadata", "StorageMeta", RSHI_CLASS_STORAGE_META},
    {OLD "filesystem", "_StorageInfo", RSHI_CLASS_STORAGE_INFO},
    {NEW "filesystem", "_StorageInfo", RSHI_CLASS_STORAGE_INFO},
    {"torch.distributed._shard.sharded_tensor.metadata", "TensorProperties", RSHI_CLASS_PROPERTIES},
    {NEW "metadata", "TensorProperties", RSHI_CLASS_PROPERTIES},
    {"torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING", RSHI_CLASS_MEMORY_FORMAT},
    {NEW "metadata", "_MEM_FORMAT_ENCODING", RSHI_CLASS_MEMORY_FORMAT},
    {"torch.serialization", "_get_layout", RSHI_CLASS_GET_LAYOUT},
    {"builtins", "getattr", RSHI_CLASS_GETATTR},
    {"__builtin__", "getattr", RSHI_CLASS_GETATTR},
    {"torch", "Size", RSHI_CLASS_SIZE},
    {"collections", "OrderedDict", RSHI_CLASS_ORDERED_DICT},
    {"pathlib", "PosixPath", RSHI_CLASS_PATH},
    {"pathlib._local", "PosixPath", RSHI_CLASS_PATH},
    {"collections", "defaultdict", RSHI_CLASS_DEFAULT_DICT},
    {"builtins", "set", RSHI_CLASS_SET},
    {"__builtin__", "set", RSHI_CLASS_SET},
    {"builtins", "frozenset", RSHI_CLASS_SET},
    {"__builtin__", "frozenset", RSHI_CLASS_SET},
    {"torch._utils", "_rebuild_tensor", RSHI_CLASS_TENSOR_V2},
    {"torch._utils", "_rebuild_tensor_v2", RSHI_CLASS_TENSOR_V2},
    {"torch._utils", "_rebuild_tensor_v3", RSHI_CLASS_TENSOR_V3},
    {"torch._utils", "_rebuild_parameter", RSHI_CLASS_PARAMETER},
    {"torch._utils", "_rebuild_parameter_with_state", RSHI_CLASS_PARAMETER},
    {"torch._utils", "_rebuild_wrapper_subclass", RSHI_CLASS_WRAPPER},
    {"torch._tensor", "_rebuild_from_type", RSHI_CLASS_FROM_TYPE},
    {"torch._tensor", "_rebuild_from_type_v2", RSHI_CLASS_FROM_TYPE},
    PLACE("", "DTensor", RSHI_CLASS_DTENSOR),
    PLACE(".api", "DTensor", RSHI_CLASS_DTENSOR),
    PLACE("._api", "DTensor", RSHI_CLASS_DTENSOR),
    PLACE("._dtensor_spec", "DTensorSpec", RSHI_CLASS_DTENSOR_SPEC),
    PLACE(".placement_types", "DTensorSpec", RSHI_CLASS_DTENSOR_SPEC),
    PLACE(".placement_types", "Shard", RSHI_CLASS_SHARD),
    PLACE(".placement_types", "_StridedShard", RSHI_CLASS_STRIDED_SHARD),
    PLACE(".placement_types", "Replicate", RSHI_CLASS_REPLICATE),
    PLACE(".placement_types", "Partial", RSHI_CLASS_PARTIAL),
    PLACE(".placement_types", "_Partial", RSHI_CLASS_PARTIAL),
    {"torch.distributed.device_mesh", "DeviceMesh", RSHI_CLASS_DEVICE_MESH},
    PLACE(".device_mesh", "DeviceMesh", RSHI_CLASS_DEVICE_MESH),
    {"torch.distributed._mesh_layout", "_MeshLayout", RSHI_CLASS_MESH_LAYOUT},
    {"torch.distributed._shard.sharded_tensor.api", "ShardedTensor", RSHI_CLASS_SHARDED_TENSOR},
    {"torch.distributed._shard.sharded_tensor.shard", "Shard", RSHI_CLASS_LOCAL_SHARD},
    {"torch.distributed._shard.metadata", "ShardMetadata", RSHI_CLASS_SHARD_METADATA},
};

/* dtypes, and the storage classes for them. */
static const struct {
    const char *name, *storage; /* names below "torch"; storage may be NULL */
    rsh_dtype dtype;
} dtypes[] = {
    {"bool", "BoolStorage", RSH_BOOL},
    {"uint8", "ByteStorage", RSH_U8},
    {"int8", "CharStorage", RSH_I8},
    {"uint16", NULL, RSH_U16},
    {"int16", "ShortStorage", RSH_I16},
    {"uint32", NULL, RSH_U32},
    {"int32", "IntStorage", RSH_I32},
    {"uint64", NULL, RSH_U64},
    {"int64", "LongStorage", RSH_I64},
    {"float16", "HalfStorage", RSH_F16},
    {"bfloat16", "BFloat16Storage", RSH_BF16},
    {"float32", "FloatStorage", RSH_F32},
    {"float64", "DoubleStorage", RSH_F64},
    {"float8_e4m3fn", NULL, RSH_F8E4M3},
    {"float8_e5m2", NULL, RSH_F8E5M2},
    {"float8_e4m3fnuz", NULL, RSH_F8E4M3FNUZ},
    {"float8_e5m2fnuz", NULL, RSH_F8E5M2FNUZ},
    {"float8_e8m0fnu", NULL, RSH_F8E8M0},
    {"complex64", "ComplexFloatStorage", RSH_C64},
    {"complex128", "ComplexDoubleStorage", RSH_C128},
};

/* dtypes of PyTorch that have no counterpart here. */
static const char *const foreign[] = {"complex32",     "qint8", "quint8",           "qint32", "quint4x2",
                                      "quint2x4", "bits8", "float4_e2m1fn_x2", "uint4",  "int4"};

#define COUNT(list) (sizeof list / sizeof *list)

static bool text_is(const char *a, const char *b, size_t n) { return a && strlen(a) == n && !memcmp(a, b, n); }

static bool find_torch(const char *name, size_t n, rshi_pickle_value *out) {
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        bool storage = text_is(dtypes[i].storage, name, n);
        if (!storage && !text_is(dtypes[i].name, name, n)) continue;
        out->class = storage ? RSHI_CLASS_STORAGE : RSHI_CLASS_DTYPE;
        out->number = dtypes[i].dtype;
        return true;
    }
    if (!text_is("UntypedStorage", name, n)) return false;
    out->class = RSHI_CLASS_STORAGE;
    out->number = RSH_DTYPE_NONE;
    return true;
}

rsh_status rshi_pickle_find(const char *module, size_t mlength, const char *name, size_t nlength,
                            rshi_pickle_value *out) {
    out->kind = RSHI_PICKLE_CLASS;
    for (size_t i = 0; i < COUNT(classes); i++)
        if (text_is(classes[i].module, module, mlength) && text_is(classes[i].name, name, nlength)) {
            out->class = classes[i].class;
            return RSH_OK;
        }
    if (text_is("MCoreMetadata", name, nlength)) { /* Megatron's class; its module differs between versions */
        out->class = RSHI_CLASS_METADATA;
        return RSH_OK;
    }
    bool torch = text_is("torch", module, mlength) || text_is("torch.storage", module, mlength);
    if (torch && find_torch(name, nlength, out)) return RSH_OK;
    for (size_t i = 0; torch && i < COUNT(foreign); i++)
        if (text_is(foreign[i], name, nlength))
            return rshi_fail(RSH_EUNSUP, "dtype torch.%s is not supported", foreign[i]);
    out->class = RSHI_CLASS_OPAQUE;
    out->text = name;
    out->n = (uint32_t)nlength;
    return RSH_OK;
}
