! Interfaces of reshard for Fortran 2003.  Made by tools/fortran.py from the C headers; do not edit.
!
! Include it where declarations stand, after "use, intrinsic :: iso_c_binding", or use the module in
! reshard_module.f90, which includes it.  The C headers say what the functions do.  uint64_t is
! integer(c_int64_t): large values look negative.
!
! Left out:
!   RSH_DIGEST_TEXT (36): there is a function of that name

integer(c_int), parameter :: RSH_MAX_AXES = 8
integer(c_int), parameter :: RSH_MAX_LOOPS = 16
integer(c_int), parameter :: RSH_MAX_NDIM = 8
integer(c_int), parameter :: RSH_NDTYPES = 17
integer(c_int), parameter :: RSH_VERSION_MAJOR = 0
integer(c_int), parameter :: RSH_VERSION_MINOR = 1
integer(c_int), parameter :: RSH_VERSION_PATCH = 0

! rsh_status
integer(c_int), parameter :: RSH_OK = 0
integer(c_int), parameter :: RSH_EVALUE = 1
integer(c_int), parameter :: RSH_ETYPE = 2
integer(c_int), parameter :: RSH_EKEY = 3
integer(c_int), parameter :: RSH_EINDEX = 4
integer(c_int), parameter :: RSH_EATTR = 5
integer(c_int), parameter :: RSH_EUNSUP = 6
integer(c_int), parameter :: RSH_ERUNTIME = 7
integer(c_int), parameter :: RSH_ENOMEM = 8
integer(c_int), parameter :: RSH_EIO = 9
integer(c_int), parameter :: RSH_EPEER = 10
integer(c_int), parameter :: RSH_EMISMATCH = 11
integer(c_int), parameter :: RSH_ETIMEOUT = 12
integer(c_int), parameter :: RSH_EBUSY = 13

! rsh_dtype
integer(c_int), parameter :: RSH_BOOL = 0
integer(c_int), parameter :: RSH_U8 = 1
integer(c_int), parameter :: RSH_I8 = 2
integer(c_int), parameter :: RSH_U16 = 3
integer(c_int), parameter :: RSH_I16 = 4
integer(c_int), parameter :: RSH_U32 = 5
integer(c_int), parameter :: RSH_I32 = 6
integer(c_int), parameter :: RSH_U64 = 7
integer(c_int), parameter :: RSH_I64 = 8
integer(c_int), parameter :: RSH_F16 = 9
integer(c_int), parameter :: RSH_BF16 = 10
integer(c_int), parameter :: RSH_F32 = 11
integer(c_int), parameter :: RSH_F64 = 12
integer(c_int), parameter :: RSH_F8E4M3 = 13
integer(c_int), parameter :: RSH_F8E5M2 = 14
integer(c_int), parameter :: RSH_C64 = 15
integer(c_int), parameter :: RSH_C128 = 16
integer(c_int), parameter :: RSH_F8E8M0 = 64
integer(c_int), parameter :: RSH_F8E4M3FNUZ = 65
integer(c_int), parameter :: RSH_F8E5M2FNUZ = 66
integer(c_int), parameter :: RSH_F6E2M3 = 67
integer(c_int), parameter :: RSH_F6E3M2 = 68
integer(c_int), parameter :: RSH_F4 = 69
integer(c_int), parameter :: RSH_DTYPE_NONE = 255

! rsh_op
integer(c_int), parameter :: RSH_OP_NONE = 0
integer(c_int), parameter :: RSH_OP_SUM = 1
integer(c_int), parameter :: RSH_OP_AVG = 2
integer(c_int), parameter :: RSH_OP_MIN = 3
integer(c_int), parameter :: RSH_OP_MAX = 4
integer(c_int), parameter :: RSH_OP_PROD = 5
integer(c_int), parameter :: RSH_OP_BAND = 6
integer(c_int), parameter :: RSH_OP_BOR = 7
integer(c_int), parameter :: RSH_OP_BXOR = 8
integer(c_int), parameter :: RSH_OP_COUNT = 9

! rsh_cut_rule
integer(c_int), parameter :: RSH_CUT_CHUNK = 0
integer(c_int), parameter :: RSH_CUT_BALANCED = 1
integer(c_int), parameter :: RSH_CUT_CYCLIC = 2
integer(c_int), parameter :: RSH_CUT_UNIT = 3
integer(c_int), parameter :: RSH_CUT_SIZES = 4

! rsh_reduce_order
integer(c_int), parameter :: RSH_REDUCE_IN_ORDER = 0
integer(c_int), parameter :: RSH_REDUCE_BY_NODE = 1

! rsh_print_format
integer(c_int), parameter :: RSH_PRINT_TEXT = 0
integer(c_int), parameter :: RSH_PRINT_JSON = 1

type, bind(C) :: rsh_sink
  type(c_funptr) :: write
  type(c_ptr) :: ctx
end type rsh_sink

type, bind(C) :: rsh_message
  integer(c_int) :: peer
  type(c_ptr) :: data
  integer(c_size_t) :: bytes
end type rsh_message

type, bind(C) :: rsh_text_error
  integer(c_int) :: line
  integer(c_int) :: column
  type(c_ptr) :: sentence
end type rsh_text_error

type, bind(C) :: rsh_cut
  integer(c_int) :: naxes
  integer(c_int) :: axes(8)
  integer(c_int) :: rule
  integer(c_int64_t) :: number
  type(c_ptr) :: sizes
  integer(c_int64_t) :: nsizes
end type rsh_cut

type, bind(C) :: rsh_segment
  integer(c_int64_t) :: size
  type(rsh_cut) :: cut
end type rsh_segment

type, bind(C) :: rsh_dim
  integer(c_int64_t) :: size
  type(rsh_cut) :: cut
  integer(c_int) :: nsegments
  type(c_ptr) :: segment
end type rsh_dim

type, bind(C) :: rsh_axis
  character(kind=c_char) :: name(32)
  integer(c_int64_t) :: size
end type rsh_axis

type, bind(C) :: rsh_box
  integer(c_int64_t) :: lo(8)
  integer(c_int64_t) :: hi(8)
end type rsh_box

type, bind(C) :: rsh_ranked_box
  integer(c_int64_t) :: nranks
  type(c_ptr) :: ranks
  type(rsh_box) :: box
end type rsh_ranked_box

type, bind(C) :: rsh_layout_desc
  integer(c_int) :: dtype
  integer(c_int) :: ndim
  type(rsh_dim) :: dim(8)
  type(rsh_cut) :: flat
  integer(c_int) :: naxes
  type(rsh_axis) :: axis(8)
  integer(c_int64_t) :: first_rank
  type(c_ptr) :: ranks
  integer(c_int) :: op
  integer(c_int) :: npartial
  integer(c_int) :: partial(8)
  logical(c_bool) :: has_order
  integer(c_int) :: order(8)
  logical(c_bool) :: is_boxes
  integer(c_int64_t) :: nboxes
  type(c_ptr) :: boxes
end type rsh_layout_desc

type, bind(C) :: rsh_part
  integer(c_int) :: ndim
  integer(c_int64_t) :: shape(8)
  integer(c_int64_t) :: strides(8)
  integer(c_int64_t) :: count
end type rsh_part

type, bind(C) :: rsh_plan_opts
  integer(c_size_t) :: struct_size = 56_c_size_t
  type(c_ptr) :: node_of = c_null_ptr
  integer(c_int64_t) :: nnode_of = 0_c_int64_t
  integer(c_int64_t) :: ranks_per_node = 0_c_int64_t
  logical(c_bool) :: has_max_scratch = .false._c_bool
  integer(c_int64_t) :: max_scratch_bytes = 0_c_int64_t
  integer(c_int) :: reduce = 0_c_int
  logical(c_bool) :: approximate = .false._c_bool
  logical(c_bool) :: may_alias = .false._c_bool
  logical(c_bool) :: messages = .false._c_bool
end type rsh_plan_opts

type, bind(C) :: rsh_plan_totals
  integer(c_size_t) :: struct_size = 96_c_size_t
  integer(c_int64_t) :: tensor_bytes = 0_c_int64_t
  integer(c_int64_t) :: bytes_moved = 0_c_int64_t
  integer(c_int64_t) :: lower_bound = 0_c_int64_t
  integer(c_int64_t) :: bytes_local = 0_c_int64_t
  integer(c_int64_t) :: bytes_between_nodes = 0_c_int64_t
  integer(c_int64_t) :: lower_bound_between_nodes = 0_c_int64_t
  integer(c_int64_t) :: max_send = 0_c_int64_t
  integer(c_int64_t) :: max_recv = 0_c_int64_t
  integer(c_int64_t) :: messages = 0_c_int64_t
  integer(c_int64_t) :: scratch_bytes = 0_c_int64_t
  integer(c_int64_t) :: scratch_messages = 0_c_int64_t
end type rsh_plan_totals

type, bind(C) :: rsh_rank_totals
  integer(c_size_t) :: struct_size = 72_c_size_t
  integer(c_int64_t) :: rank = 0_c_int64_t
  integer(c_int64_t) :: bytes_sent = 0_c_int64_t
  integer(c_int64_t) :: bytes_received = 0_c_int64_t
  integer(c_int64_t) :: bytes_local = 0_c_int64_t
  integer(c_int64_t) :: nsend = 0_c_int64_t
  integer(c_int64_t) :: nrecv = 0_c_int64_t
  integer(c_int64_t) :: scratch_bytes = 0_c_int64_t
  integer(c_int64_t) :: scratch_messages = 0_c_int64_t
end type rsh_rank_totals

type, bind(C) :: rsh_transfer_end
  integer(c_int64_t) :: rank
  integer(c_int64_t) :: part
  logical(c_bool) :: in_dst
  logical(c_bool) :: in_scratch
  logical(c_bool) :: flat
  type(c_ptr) :: first
  type(c_ptr) :: step
end type rsh_transfer_end

type, bind(C) :: rsh_transfer
  integer(c_int64_t) :: tensor
  integer(c_int) :: ndim
  integer(c_int) :: stage
  integer(c_int) :: nloops
  type(c_ptr) :: n
  type(c_ptr) :: dim
  integer(c_int64_t) :: count
  integer(c_int64_t) :: element_bytes
  integer(c_int) :: from
  integer(c_int) :: to
  integer(c_int) :: op
  integer(c_int64_t) :: divisor
  type(rsh_transfer_end) :: dst
  integer(c_int64_t) :: nsrc
  type(c_ptr) :: src
end type rsh_transfer

type, bind(C) :: rsh_share
  integer(c_int64_t) :: rank
  type(c_ptr) :: copies
  type(c_ptr) :: receives
  type(c_ptr) :: sends
  integer(c_int64_t) :: ncopies
  integer(c_int64_t) :: nreceives
  integer(c_int64_t) :: nsends
  type(c_ptr) :: scratch
end type rsh_share

type, bind(C) :: rsh_memory
  type(c_ptr) :: data
  type(c_ptr) :: strides
end type rsh_memory

type, bind(C) :: rsh_cache_stats
  integer(c_size_t) :: struct_size = 32_c_size_t
  integer(c_int64_t) :: hits = 0_c_int64_t
  integer(c_int64_t) :: misses = 0_c_int64_t
  integer(c_int64_t) :: bindings = 0_c_int64_t
end type rsh_cache_stats

type, bind(C) :: rsh_digest
  integer(c_int64_t) :: hi
  integer(c_int64_t) :: lo
end type rsh_digest

type, bind(C) :: rsh_exec_stats
  integer(c_size_t) :: struct_size = 112_c_size_t
  integer(c_int64_t) :: runs = 0_c_int64_t
  integer(c_int64_t) :: bytes_local = 0_c_int64_t
  integer(c_int64_t) :: bytes_shared = 0_c_int64_t
  integer(c_int64_t) :: bytes_wire = 0_c_int64_t
  real(c_double) :: seconds = 0_c_double
  integer(c_int64_t) :: contiguous = 0_c_int64_t
  integer(c_int64_t) :: rows = 0_c_int64_t
  integer(c_int64_t) :: strided = 0_c_int64_t
  integer(c_int64_t) :: transposed = 0_c_int64_t
  integer(c_int64_t) :: converted = 0_c_int64_t
  integer(c_int64_t) :: reduced = 0_c_int64_t
  integer(c_int64_t) :: filled = 0_c_int64_t
  integer(c_int64_t) :: bytes_shadow = 0_c_int64_t
end type rsh_exec_stats

type, bind(C) :: rsh_ckpt_entry
  integer(c_size_t) :: struct_size = 80_c_size_t
  type(c_ptr) :: name = c_null_ptr
  integer(c_int) :: dtype = 0_c_int
  integer(c_int) :: ndim = 0_c_int
  type(c_ptr) :: shape = c_null_ptr
  type(c_ptr) :: layout = c_null_ptr
  logical(c_bool) :: by_rank = .false._c_bool
  integer(c_int64_t) :: bytes = 0_c_int64_t
  type(c_ptr) :: digest = c_null_ptr
  type(c_ptr) :: packing = c_null_ptr
  integer(c_int) :: block_elements = 0_c_int
  integer(c_int) :: block_bytes = 0_c_int
end type rsh_ckpt_entry

type, bind(C) :: rsh_convert_opts
  integer(c_size_t) :: struct_size = 128_c_size_t
  type(c_ptr) :: from = c_null_ptr
  type(c_ptr) :: to = c_null_ptr
  integer(c_int64_t) :: mem = 0_c_int64_t
  integer(c_int) :: threads = 0_c_int
  integer(c_int64_t) :: max_shard = 0_c_int64_t
  logical(c_bool) :: resume = .false._c_bool
  logical(c_bool) :: force = .false._c_bool
  logical(c_bool) :: dedup = .false._c_bool
  logical(c_bool) :: drop = .false._c_bool
  logical(c_bool) :: no_digest = .false._c_bool
  logical(c_bool) :: verify = .false._c_bool
  integer(c_int64_t) :: ninclude = 0_c_int64_t
  integer(c_int64_t) :: nexclude = 0_c_int64_t
  type(c_ptr) :: include = c_null_ptr
  type(c_ptr) :: exclude = c_null_ptr
  type(c_funptr) :: progress = c_null_funptr
  type(c_ptr) :: progress_ctx = c_null_ptr
  logical(c_bool) :: reverse = .false._c_bool
  type(c_ptr) :: format = c_null_ptr
  integer(c_int64_t) :: max_tensors = 0_c_int64_t
end type rsh_convert_opts

type, bind(C) :: rsh_convert_report
  integer(c_size_t) :: struct_size = 104_c_size_t
  integer(c_int64_t) :: tensors = 0_c_int64_t
  integer(c_int64_t) :: files = 0_c_int64_t
  integer(c_int64_t) :: source_bytes = 0_c_int64_t
  integer(c_int64_t) :: target_bytes = 0_c_int64_t
  integer(c_int64_t) :: bytes_read = 0_c_int64_t
  integer(c_int64_t) :: bytes_written = 0_c_int64_t
  integer(c_int64_t) :: bytes_kept = 0_c_int64_t
  logical(c_bool) :: verified = .false._c_bool
  integer(c_int64_t) :: converted = 0_c_int64_t
  integer(c_int64_t) :: digests_unchecked = 0_c_int64_t
  integer(c_int64_t) :: folders = 0_c_int64_t
  logical(c_bool) :: gap = .false._c_bool
end type rsh_convert_report

type, bind(C) :: rsh_convert_step
  type(c_ptr) :: name
  type(c_ptr) :: from
  type(c_ptr) :: to
  integer(c_int) :: from_dtype
  integer(c_int) :: to_dtype
  integer(c_int64_t) :: rule
  type(c_ptr) :: pattern
  integer(c_int) :: line
  integer(c_int64_t) :: bytes
  integer(c_int) :: ndim
  type(c_ptr) :: shape
  integer(c_int64_t) :: nsources
  type(c_ptr) :: sources
  logical(c_bool) :: dropped
end type rsh_convert_step

type, bind(C) :: rsh_save_opts
  integer(c_size_t) :: struct_size = 48_c_size_t
  logical(c_bool) :: force = .false._c_bool
  logical(c_bool) :: no_digest = .false._c_bool
  integer(c_int64_t) :: nmeta = 0_c_int64_t
  type(c_ptr) :: keys = c_null_ptr
  type(c_ptr) :: values = c_null_ptr
  type(c_ptr) :: map = c_null_ptr
end type rsh_save_opts

type, bind(C) :: rsh_load_stats
  integer(c_size_t) :: struct_size = 40_c_size_t
  integer(c_int64_t) :: bytes_read = 0_c_int64_t
  integer(c_int64_t) :: most_scratch = 0_c_int64_t
  integer(c_int64_t) :: digests_checked = 0_c_int64_t
  integer(c_int64_t) :: digests_unchecked = 0_c_int64_t
end type rsh_load_stats

type, bind(C) :: rsh_ckpt_difference
  integer(c_size_t) :: struct_size = 1616_c_size_t
  logical(c_bool) :: found = .false._c_bool
  character(kind=c_char) :: tensor(512)
  character(kind=c_char) :: sentence(1024)
  logical(c_bool) :: has_index = .false._c_bool
  integer(c_int) :: ndim = 0_c_int
  integer(c_int64_t) :: index(8)
end type rsh_ckpt_difference

type, bind(C) :: rsh_compare_opts
  integer(c_size_t) :: struct_size = 48_c_size_t
  logical(c_bool) :: converted = .false._c_bool
  logical(c_bool) :: allow_missing = .false._c_bool
  integer(c_int64_t) :: mem = 0_c_int64_t
  integer(c_int) :: threads = 0_c_int
  type(c_funptr) :: progress = c_null_funptr
  type(c_ptr) :: progress_ctx = c_null_ptr
end type rsh_compare_opts

interface
  function rsh_version() &
      bind(C, name="rsh_version") result(answer)
    import
    type(c_ptr) :: answer
  end function rsh_version
  function rsh_copy_isa() &
      bind(C, name="rsh_copy_isa") result(answer)
    import
    type(c_ptr) :: answer
  end function rsh_copy_isa
  function rsh_status_name(status) &
      bind(C, name="rsh_status_name") result(answer)
    import
    integer(c_int), value :: status
    type(c_ptr) :: answer
  end function rsh_status_name
  function rsh_status_text(status) &
      bind(C, name="rsh_status_text") result(answer)
    import
    integer(c_int), value :: status
    type(c_ptr) :: answer
  end function rsh_status_text
  function rsh_error_detail() &
      bind(C, name="rsh_error_detail") result(answer)
    import
    type(c_ptr) :: answer
  end function rsh_error_detail
  function rsh_fail(status, sentence) &
      bind(C, name="rsh_fail") result(answer)
    import
    integer(c_int), value :: status
    character(kind=c_char), intent(in) :: sentence(*)
    integer(c_int) :: answer
  end function rsh_fail
  function rsh_options_read(given, size, init, options) &
      bind(C, name="rsh_options_read") result(answer)
    import
    type(c_ptr), value :: given
    integer(c_size_t), value :: size
    character(kind=c_char), intent(in) :: init(*)
    type(c_ptr), value :: options
    integer(c_int) :: answer
  end function rsh_options_read
  subroutine rsh_interrupt_set(fn, ctx) &
      bind(C, name="rsh_interrupt_set")
    import
    type(c_funptr), value :: fn
    type(c_ptr), value :: ctx
  end subroutine rsh_interrupt_set
  function rsh_dtype_size(dtype) &
      bind(C, name="rsh_dtype_size") result(answer)
    import
    integer(c_int), value :: dtype
    integer(c_size_t) :: answer
  end function rsh_dtype_size
  function rsh_dtype_bits(dtype) &
      bind(C, name="rsh_dtype_bits") result(answer)
    import
    integer(c_int), value :: dtype
    integer(c_int) :: answer
  end function rsh_dtype_bits
  function rsh_dtype_name(dtype) &
      bind(C, name="rsh_dtype_name") result(answer)
    import
    integer(c_int), value :: dtype
    type(c_ptr) :: answer
  end function rsh_dtype_name
  function rsh_op_name(op) &
      bind(C, name="rsh_op_name") result(answer)
    import
    integer(c_int), value :: op
    type(c_ptr) :: answer
  end function rsh_op_name
  function rsh_dtype_parse(text, length, out) &
      bind(C, name="rsh_dtype_parse") result(answer)
    import
    character(kind=c_char), intent(in) :: text(*)
    integer(c_size_t), value :: length
    integer(c_int), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_dtype_parse
  function rsh_op_parse(text, length, out) &
      bind(C, name="rsh_op_parse") result(answer)
    import
    character(kind=c_char), intent(in) :: text(*)
    integer(c_size_t), value :: length
    integer(c_int), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_op_parse
  function rsh_op_check(op, dtype) &
      bind(C, name="rsh_op_check") result(answer)
    import
    integer(c_int), value :: op
    integer(c_int), value :: dtype
    integer(c_int) :: answer
  end function rsh_op_check
  function rsh_dtype_check_convert(from, to) &
      bind(C, name="rsh_dtype_check_convert") result(answer)
    import
    integer(c_int), value :: from
    integer(c_int), value :: to
    integer(c_int) :: answer
  end function rsh_dtype_check_convert
  function rsh_layout_parse(text, out) &
      bind(C, name="rsh_layout_parse") result(answer)
    import
    character(kind=c_char), intent(in) :: text(*)
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_layout_parse
  function rsh_layout_parse_at(text, error, out) &
      bind(C, name="rsh_layout_parse_at") result(answer)
    import
    character(kind=c_char), intent(in) :: text(*)
    type(rsh_text_error), intent(inout) :: error
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_layout_parse_at
  function rsh_layout_new(desc, out) &
      bind(C, name="rsh_layout_new") result(answer)
    import
    type(c_ptr), value :: desc
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_layout_new
  function rsh_layout_whole(dtype, ndim, shape, rank, out) &
      bind(C, name="rsh_layout_whole") result(answer)
    import
    integer(c_int), value :: dtype
    integer(c_int), value :: ndim
    integer(c_int64_t), intent(in) :: shape(*)
    integer(c_int64_t), value :: rank
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_layout_whole
  function rsh_layout_hold(l) &
      bind(C, name="rsh_layout_hold") result(answer)
    import
    type(c_ptr), value :: l
    type(c_ptr) :: answer
  end function rsh_layout_hold
  subroutine rsh_layout_free(l) &
      bind(C, name="rsh_layout_free")
    import
    type(c_ptr), value :: l
  end subroutine rsh_layout_free
  function rsh_layout_describe(l) &
      bind(C, name="rsh_layout_describe") result(answer)
    import
    type(c_ptr), value :: l
    type(c_ptr) :: answer
  end function rsh_layout_describe
  function rsh_layout_text(l) &
      bind(C, name="rsh_layout_text") result(answer)
    import
    type(c_ptr), value :: l
    type(c_ptr) :: answer
  end function rsh_layout_text
  function rsh_layout_equal(a, b) &
      bind(C, name="rsh_layout_equal") result(answer)
    import
    type(c_ptr), value :: a
    type(c_ptr), value :: b
    logical(c_bool) :: answer
  end function rsh_layout_equal
  function rsh_layout_hash(l) &
      bind(C, name="rsh_layout_hash") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int64_t) :: answer
  end function rsh_layout_hash
  function rsh_layout_same_parts(a, b) &
      bind(C, name="rsh_layout_same_parts") result(answer)
    import
    type(c_ptr), value :: a
    type(c_ptr), value :: b
    logical(c_bool) :: answer
  end function rsh_layout_same_parts
  function rsh_layout_dtype(l) &
      bind(C, name="rsh_layout_dtype") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int) :: answer
  end function rsh_layout_dtype
  function rsh_layout_ndim(l) &
      bind(C, name="rsh_layout_ndim") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int) :: answer
  end function rsh_layout_ndim
  function rsh_layout_shape(l) &
      bind(C, name="rsh_layout_shape") result(answer)
    import
    type(c_ptr), value :: l
    type(c_ptr) :: answer
  end function rsh_layout_shape
  function rsh_layout_count(l) &
      bind(C, name="rsh_layout_count") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int64_t) :: answer
  end function rsh_layout_count
  function rsh_layout_op(l) &
      bind(C, name="rsh_layout_op") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int) :: answer
  end function rsh_layout_op
  function rsh_layout_nranks(l) &
      bind(C, name="rsh_layout_nranks") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int64_t) :: answer
  end function rsh_layout_nranks
  function rsh_layout_rank(l, i) &
      bind(C, name="rsh_layout_rank") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int64_t), value :: i
    integer(c_int64_t) :: answer
  end function rsh_layout_rank
  function rsh_layout_nparts(l, rank) &
      bind(C, name="rsh_layout_nparts") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int64_t), value :: rank
    integer(c_int64_t) :: answer
  end function rsh_layout_nparts
  function rsh_layout_part(l, rank, part, out) &
      bind(C, name="rsh_layout_part") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int64_t), value :: rank
    integer(c_int64_t), value :: part
    type(rsh_part), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_layout_part
  function rsh_layout_each_box(l, rank, part, fn, ctx) &
      bind(C, name="rsh_layout_each_box") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int64_t), value :: rank
    integer(c_int64_t), value :: part
    type(c_funptr), value :: fn
    type(c_ptr), value :: ctx
    integer(c_int) :: answer
  end function rsh_layout_each_box
  function rsh_layout_each_range(l, rank, part, dim, fn, ctx) &
      bind(C, name="rsh_layout_each_range") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int64_t), value :: rank
    integer(c_int64_t), value :: part
    integer(c_int), value :: dim
    type(c_funptr), value :: fn
    type(c_ptr), value :: ctx
    integer(c_int) :: answer
  end function rsh_layout_each_range
  function rsh_layout_local_offset(l, rank, part, index, offset) &
      bind(C, name="rsh_layout_local_offset") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int64_t), value :: rank
    integer(c_int64_t), value :: part
    integer(c_int64_t), intent(in) :: index(*)
    integer(c_int64_t), intent(inout) :: offset
    integer(c_int) :: answer
  end function rsh_layout_local_offset
  function rsh_layout_global_index(l, rank, part, offset, index) &
      bind(C, name="rsh_layout_global_index") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int64_t), value :: rank
    integer(c_int64_t), value :: part
    integer(c_int64_t), value :: offset
    integer(c_int64_t), intent(inout) :: index(*)
    integer(c_int) :: answer
  end function rsh_layout_global_index
  function rsh_form_parse(text, mesh, error, out) &
      bind(C, name="rsh_form_parse") result(answer)
    import
    character(kind=c_char), intent(in) :: text(*)
    type(c_ptr), value :: mesh
    type(rsh_text_error), intent(inout) :: error
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_form_parse
  subroutine rsh_form_free(f) &
      bind(C, name="rsh_form_free")
    import
    type(c_ptr), value :: f
  end subroutine rsh_form_free
  function rsh_form_describe(f) &
      bind(C, name="rsh_form_describe") result(answer)
    import
    type(c_ptr), value :: f
    type(c_ptr) :: answer
  end function rsh_form_describe
  function rsh_form_text(f) &
      bind(C, name="rsh_form_text") result(answer)
    import
    type(c_ptr), value :: f
    type(c_ptr) :: answer
  end function rsh_form_text
  function rsh_form_has_dtype(f) &
      bind(C, name="rsh_form_has_dtype") result(answer)
    import
    type(c_ptr), value :: f
    logical(c_bool) :: answer
  end function rsh_form_has_dtype
  function rsh_form_fill(f, dtype, ndim, shape, error, out) &
      bind(C, name="rsh_form_fill") result(answer)
    import
    type(c_ptr), value :: f
    integer(c_int), value :: dtype
    integer(c_int), value :: ndim
    integer(c_int64_t), intent(in) :: shape(*)
    type(rsh_text_error), intent(inout) :: error
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_form_fill
  function rsh_plan_new(from, to, opts, out) &
      bind(C, name="rsh_plan_new") result(answer)
    import
    type(c_ptr), value :: from
    type(c_ptr), value :: to
    type(c_ptr), value :: opts
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_plan_new
  function rsh_plan_new_many(n, from, to, opts, out) &
      bind(C, name="rsh_plan_new_many") result(answer)
    import
    integer(c_int64_t), value :: n
    type(c_ptr), intent(in) :: from(*)
    type(c_ptr), intent(in) :: to(*)
    type(c_ptr), value :: opts
    type(c_ptr), intent(inout) :: out(*)
    integer(c_int) :: answer
  end function rsh_plan_new_many
  function rsh_plan_hold(p) &
      bind(C, name="rsh_plan_hold") result(answer)
    import
    type(c_ptr), value :: p
    type(c_ptr) :: answer
  end function rsh_plan_hold
  subroutine rsh_plan_free(p) &
      bind(C, name="rsh_plan_free")
    import
    type(c_ptr), value :: p
  end subroutine rsh_plan_free
  function rsh_plan_adjoint(p, out) &
      bind(C, name="rsh_plan_adjoint") result(answer)
    import
    type(c_ptr), value :: p
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_plan_adjoint
  function rsh_plan_backward(p, out) &
      bind(C, name="rsh_plan_backward") result(answer)
    import
    type(c_ptr), value :: p
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_plan_backward
  function rsh_plan_ntensors(p) &
      bind(C, name="rsh_plan_ntensors") result(answer)
    import
    type(c_ptr), value :: p
    integer(c_int64_t) :: answer
  end function rsh_plan_ntensors
  function rsh_plan_from(p, tensor) &
      bind(C, name="rsh_plan_from") result(answer)
    import
    type(c_ptr), value :: p
    integer(c_int64_t), value :: tensor
    type(c_ptr) :: answer
  end function rsh_plan_from
  function rsh_plan_to(p, tensor) &
      bind(C, name="rsh_plan_to") result(answer)
    import
    type(c_ptr), value :: p
    integer(c_int64_t), value :: tensor
    type(c_ptr) :: answer
  end function rsh_plan_to
  function rsh_plan_fingerprint(p) &
      bind(C, name="rsh_plan_fingerprint") result(answer)
    import
    type(c_ptr), value :: p
    integer(c_int64_t) :: answer
  end function rsh_plan_fingerprint
  function rsh_plan_nranks(p) &
      bind(C, name="rsh_plan_nranks") result(answer)
    import
    type(c_ptr), value :: p
    integer(c_int64_t) :: answer
  end function rsh_plan_nranks
  function rsh_plan_nstages(p) &
      bind(C, name="rsh_plan_nstages") result(answer)
    import
    type(c_ptr), value :: p
    integer(c_int) :: answer
  end function rsh_plan_nstages
  function rsh_plan_get_totals(p, out) &
      bind(C, name="rsh_plan_get_totals") result(answer)
    import
    type(c_ptr), value :: p
    type(rsh_plan_totals), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_plan_get_totals
  function rsh_plan_get_totals_with(p, progress, ctx, out) &
      bind(C, name="rsh_plan_get_totals_with") result(answer)
    import
    type(c_ptr), value :: p
    type(c_funptr), value :: progress
    type(c_ptr), value :: ctx
    type(rsh_plan_totals), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_plan_get_totals_with
  function rsh_plan_get_rank_totals(p, rank, out) &
      bind(C, name="rsh_plan_get_rank_totals") result(answer)
    import
    type(c_ptr), value :: p
    integer(c_int64_t), value :: rank
    type(rsh_rank_totals), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_plan_get_rank_totals
  function rsh_plan_each_rank(p, fn, ctx) &
      bind(C, name="rsh_plan_each_rank") result(answer)
    import
    type(c_ptr), value :: p
    type(c_funptr), value :: fn
    type(c_ptr), value :: ctx
    integer(c_int) :: answer
  end function rsh_plan_each_rank
  function rsh_plan_each_stage(p, fn, ctx) &
      bind(C, name="rsh_plan_each_stage") result(answer)
    import
    type(c_ptr), value :: p
    type(c_funptr), value :: fn
    type(c_ptr), value :: ctx
    integer(c_int) :: answer
  end function rsh_plan_each_stage
  function rsh_plan_each_source(p, rank, fn, ctx) &
      bind(C, name="rsh_plan_each_source") result(answer)
    import
    type(c_ptr), value :: p
    integer(c_int64_t), value :: rank
    type(c_funptr), value :: fn
    type(c_ptr), value :: ctx
    integer(c_int) :: answer
  end function rsh_plan_each_source
  function rsh_plan_each_destination(p, rank, fn, ctx) &
      bind(C, name="rsh_plan_each_destination") result(answer)
    import
    type(c_ptr), value :: p
    integer(c_int64_t), value :: rank
    type(c_funptr), value :: fn
    type(c_ptr), value :: ctx
    integer(c_int) :: answer
  end function rsh_plan_each_destination
  function rsh_plan_each_pair(p, fn, ctx) &
      bind(C, name="rsh_plan_each_pair") result(answer)
    import
    type(c_ptr), value :: p
    type(c_funptr), value :: fn
    type(c_ptr), value :: ctx
    integer(c_int) :: answer
  end function rsh_plan_each_pair
  function rsh_plan_print(p, rank, form, sink) &
      bind(C, name="rsh_plan_print") result(answer)
    import
    type(c_ptr), value :: p
    integer(c_int64_t), value :: rank
    integer(c_int), value :: form
    type(c_ptr), value :: sink
    integer(c_int) :: answer
  end function rsh_plan_print
  function rsh_plan_relabel(n, from, to, opts, relabelled, exact) &
      bind(C, name="rsh_plan_relabel") result(answer)
    import
    integer(c_int64_t), value :: n
    type(c_ptr), intent(in) :: from(*)
    type(c_ptr), intent(in) :: to(*)
    type(c_ptr), value :: opts
    type(c_ptr), intent(inout) :: relabelled(*)
    logical(c_bool), intent(inout) :: exact
    integer(c_int) :: answer
  end function rsh_plan_relabel
  function rsh_plan_share(p, rank, out) &
      bind(C, name="rsh_plan_share") result(answer)
    import
    type(c_ptr), value :: p
    integer(c_int64_t), value :: rank
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_plan_share
  subroutine rsh_share_free(s) &
      bind(C, name="rsh_share_free")
    import
    type(rsh_share), intent(inout) :: s
  end subroutine rsh_share_free
  function rsh_transfer_offsets(t, end, strides, offset, rounds) &
      bind(C, name="rsh_transfer_offsets") result(answer)
    import
    type(c_ptr), value :: t
    type(c_ptr), value :: end
    integer(c_int64_t), intent(in) :: strides(*)
    integer(c_int64_t), intent(inout) :: offset
    integer(c_int64_t), intent(inout) :: rounds(*)
    integer(c_int) :: answer
  end function rsh_transfer_offsets
  function rsh_tensor_empty(dtype, ndim, shape, out) &
      bind(C, name="rsh_tensor_empty") result(answer)
    import
    integer(c_int), value :: dtype
    integer(c_int), value :: ndim
    integer(c_int64_t), intent(in) :: shape(*)
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_tensor_empty
  function rsh_tensor_zeros(dtype, ndim, shape, out) &
      bind(C, name="rsh_tensor_zeros") result(answer)
    import
    integer(c_int), value :: dtype
    integer(c_int), value :: ndim
    integer(c_int64_t), intent(in) :: shape(*)
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_tensor_zeros
  function rsh_tensor_wrap(data, dtype, ndim, shape, strides, deleter, ctx, out) &
      bind(C, name="rsh_tensor_wrap") result(answer)
    import
    type(c_ptr), value :: data
    integer(c_int), value :: dtype
    integer(c_int), value :: ndim
    integer(c_int64_t), intent(in) :: shape(*)
    integer(c_int64_t), intent(in) :: strides(*)
    type(c_funptr), value :: deleter
    type(c_ptr), value :: ctx
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_tensor_wrap
  function rsh_tensor_view(t, offset, ndim, shape, strides, out) &
      bind(C, name="rsh_tensor_view") result(answer)
    import
    type(c_ptr), value :: t
    integer(c_int64_t), value :: offset
    integer(c_int), value :: ndim
    integer(c_int64_t), intent(in) :: shape(*)
    integer(c_int64_t), intent(in) :: strides(*)
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_tensor_view
  function rsh_tensor_narrow(t, offsets, sizes, out) &
      bind(C, name="rsh_tensor_narrow") result(answer)
    import
    type(c_ptr), value :: t
    integer(c_int64_t), intent(in) :: offsets(*)
    integer(c_int64_t), intent(in) :: sizes(*)
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_tensor_narrow
  function rsh_tensor_transpose(t, a, b, out) &
      bind(C, name="rsh_tensor_transpose") result(answer)
    import
    type(c_ptr), value :: t
    integer(c_int), value :: a
    integer(c_int), value :: b
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_tensor_transpose
  subroutine rsh_tensor_free(t) &
      bind(C, name="rsh_tensor_free")
    import
    type(c_ptr), value :: t
  end subroutine rsh_tensor_free
  function rsh_tensor_data(t) &
      bind(C, name="rsh_tensor_data") result(answer)
    import
    type(c_ptr), value :: t
    type(c_ptr) :: answer
  end function rsh_tensor_data
  function rsh_tensor_dtype(t) &
      bind(C, name="rsh_tensor_dtype") result(answer)
    import
    type(c_ptr), value :: t
    integer(c_int) :: answer
  end function rsh_tensor_dtype
  function rsh_tensor_ndim(t) &
      bind(C, name="rsh_tensor_ndim") result(answer)
    import
    type(c_ptr), value :: t
    integer(c_int) :: answer
  end function rsh_tensor_ndim
  function rsh_tensor_shape(t) &
      bind(C, name="rsh_tensor_shape") result(answer)
    import
    type(c_ptr), value :: t
    type(c_ptr) :: answer
  end function rsh_tensor_shape
  function rsh_tensor_strides(t) &
      bind(C, name="rsh_tensor_strides") result(answer)
    import
    type(c_ptr), value :: t
    type(c_ptr) :: answer
  end function rsh_tensor_strides
  function rsh_tensor_count(t) &
      bind(C, name="rsh_tensor_count") result(answer)
    import
    type(c_ptr), value :: t
    integer(c_int64_t) :: answer
  end function rsh_tensor_count
  function rsh_tensor_dense(t) &
      bind(C, name="rsh_tensor_dense") result(answer)
    import
    type(c_ptr), value :: t
    logical(c_bool) :: answer
  end function rsh_tensor_dense
  function rsh_tensor_storage(t) &
      bind(C, name="rsh_tensor_storage") result(answer)
    import
    type(c_ptr), value :: t
    type(c_ptr) :: answer
  end function rsh_tensor_storage
  function rsh_tensor_storage_bytes(t) &
      bind(C, name="rsh_tensor_storage_bytes") result(answer)
    import
    type(c_ptr), value :: t
    integer(c_size_t) :: answer
  end function rsh_tensor_storage_bytes
  function rsh_tensor_storage_serial(t) &
      bind(C, name="rsh_tensor_storage_serial") result(answer)
    import
    type(c_ptr), value :: t
    integer(c_int64_t) :: answer
  end function rsh_tensor_storage_serial
  function rsh_tensor_version(t) &
      bind(C, name="rsh_tensor_version") result(answer)
    import
    type(c_ptr), value :: t
    integer(c_int64_t) :: answer
  end function rsh_tensor_version
  subroutine rsh_tensor_bump_version(t) &
      bind(C, name="rsh_tensor_bump_version")
    import
    type(c_ptr), value :: t
  end subroutine rsh_tensor_bump_version
  function rsh_pool_new(n, out) &
      bind(C, name="rsh_pool_new") result(answer)
    import
    integer(c_int), value :: n
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_pool_new
  function rsh_usable_cores() &
      bind(C, name="rsh_usable_cores") result(answer)
    import
    integer(c_int) :: answer
  end function rsh_usable_cores
  function rsh_pool_size(pool) &
      bind(C, name="rsh_pool_size") result(answer)
    import
    type(c_ptr), value :: pool
    integer(c_int) :: answer
  end function rsh_pool_size
  subroutine rsh_pool_run(pool, ntasks, task, ctx) &
      bind(C, name="rsh_pool_run")
    import
    type(c_ptr), value :: pool
    integer(c_int64_t), value :: ntasks
    type(c_funptr), value :: task
    type(c_ptr), value :: ctx
  end subroutine rsh_pool_run
  subroutine rsh_pool_free(pool) &
      bind(C, name="rsh_pool_free")
    import
    type(c_ptr), value :: pool
  end subroutine rsh_pool_free
  function rsh_comm_threads(n, comms) &
      bind(C, name="rsh_comm_threads") result(answer)
    import
    integer(c_int), value :: n
    type(c_ptr), intent(inout) :: comms(*)
    integer(c_int) :: answer
  end function rsh_comm_threads
  function rsh_run(n, fn, ctx) &
      bind(C, name="rsh_run") result(answer)
    import
    integer(c_int), value :: n
    type(c_funptr), value :: fn
    type(c_ptr), value :: ctx
    integer(c_int) :: answer
  end function rsh_run
  function rsh_comm_shm(name, rank, size, out) &
      bind(C, name="rsh_comm_shm") result(answer)
    import
    character(kind=c_char), intent(in) :: name(*)
    integer(c_int), value :: rank
    integer(c_int), value :: size
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_comm_shm
  function rsh_comm_join(out) &
      bind(C, name="rsh_comm_join") result(answer)
    import
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_comm_join
  function rsh_run_shm(n, fn, ctx) &
      bind(C, name="rsh_run_shm") result(answer)
    import
    integer(c_int), value :: n
    type(c_funptr), value :: fn
    type(c_ptr), value :: ctx
    integer(c_int) :: answer
  end function rsh_run_shm
  function rsh_comm_free(comm) &
      bind(C, name="rsh_comm_free") result(answer)
    import
    type(c_ptr), value :: comm
    integer(c_int) :: answer
  end function rsh_comm_free
  function rsh_comm_fail(comm, status, sentence) &
      bind(C, name="rsh_comm_fail") result(answer)
    import
    type(c_ptr), value :: comm
    integer(c_int), value :: status
    character(kind=c_char), intent(in) :: sentence(*)
    integer(c_int) :: answer
  end function rsh_comm_fail
  function rsh_comm_rank(comm) &
      bind(C, name="rsh_comm_rank") result(answer)
    import
    type(c_ptr), value :: comm
    integer(c_int) :: answer
  end function rsh_comm_rank
  function rsh_comm_size(comm) &
      bind(C, name="rsh_comm_size") result(answer)
    import
    type(c_ptr), value :: comm
    integer(c_int) :: answer
  end function rsh_comm_size
  function rsh_comm_engine(comm) &
      bind(C, name="rsh_comm_engine") result(answer)
    import
    type(c_ptr), value :: comm
    type(c_ptr) :: answer
  end function rsh_comm_engine
  function rsh_comm_nnodes(comm) &
      bind(C, name="rsh_comm_nnodes") result(answer)
    import
    type(c_ptr), value :: comm
    integer(c_int) :: answer
  end function rsh_comm_nnodes
  function rsh_comm_node(comm, rank) &
      bind(C, name="rsh_comm_node") result(answer)
    import
    type(c_ptr), value :: comm
    integer(c_int), value :: rank
    integer(c_int) :: answer
  end function rsh_comm_node
  function rsh_comm_barrier(comm) &
      bind(C, name="rsh_comm_barrier") result(answer)
    import
    type(c_ptr), value :: comm
    integer(c_int) :: answer
  end function rsh_comm_barrier
  function rsh_comm_agree(comm, mine) &
      bind(C, name="rsh_comm_agree") result(answer)
    import
    type(c_ptr), value :: comm
    integer(c_int), value :: mine
    integer(c_int) :: answer
  end function rsh_comm_agree
  function rsh_comm_allgather(comm, mine, all, bytes) &
      bind(C, name="rsh_comm_allgather") result(answer)
    import
    type(c_ptr), value :: comm
    type(c_ptr), value :: mine
    type(c_ptr), value :: all
    integer(c_size_t), value :: bytes
    integer(c_int) :: answer
  end function rsh_comm_allgather
  function rsh_comm_allreduce(comm, mine, result, count, dtype, op) &
      bind(C, name="rsh_comm_allreduce") result(answer)
    import
    type(c_ptr), value :: comm
    type(c_ptr), value :: mine
    type(c_ptr), value :: result
    integer(c_int64_t), value :: count
    integer(c_int), value :: dtype
    integer(c_int), value :: op
    integer(c_int) :: answer
  end function rsh_comm_allreduce
  function rsh_comm_exchange(comm, nsend, send, nrecv, recv) &
      bind(C, name="rsh_comm_exchange") result(answer)
    import
    type(c_ptr), value :: comm
    integer(c_int64_t), value :: nsend
    type(c_ptr), value :: send
    integer(c_int64_t), value :: nrecv
    type(c_ptr), value :: recv
    integer(c_int) :: answer
  end function rsh_comm_exchange
  function rsh_comm_split(comm, colour, key, out) &
      bind(C, name="rsh_comm_split") result(answer)
    import
    type(c_ptr), value :: comm
    integer(c_int), value :: colour
    integer(c_int), value :: key
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_comm_split
  function rsh_comm_wire(wire, out) &
      bind(C, name="rsh_comm_wire") result(answer)
    import
    type(c_ptr), value :: wire
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_comm_wire
  function rsh_sharded_empty(comm, layout, out) &
      bind(C, name="rsh_sharded_empty") result(answer)
    import
    type(c_ptr), value :: comm
    type(c_ptr), value :: layout
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_sharded_empty
  function rsh_sharded_zeros(comm, layout, out) &
      bind(C, name="rsh_sharded_zeros") result(answer)
    import
    type(c_ptr), value :: comm
    type(c_ptr), value :: layout
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_sharded_zeros
  function rsh_sharded_full(comm, layout, value, out) &
      bind(C, name="rsh_sharded_full") result(answer)
    import
    type(c_ptr), value :: comm
    type(c_ptr), value :: layout
    type(c_ptr), value :: value
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_sharded_full
  function rsh_sharded_uniform(s, seed) &
      bind(C, name="rsh_sharded_uniform") result(answer)
    import
    type(c_ptr), value :: s
    integer(c_int64_t), value :: seed
    integer(c_int) :: answer
  end function rsh_sharded_uniform
  function rsh_sharded_normal(s, seed) &
      bind(C, name="rsh_sharded_normal") result(answer)
    import
    type(c_ptr), value :: s
    integer(c_int64_t), value :: seed
    integer(c_int) :: answer
  end function rsh_sharded_normal
  function rsh_sharded_wrap(comm, layout, parts, out) &
      bind(C, name="rsh_sharded_wrap") result(answer)
    import
    type(c_ptr), value :: comm
    type(c_ptr), value :: layout
    type(c_ptr), value :: parts
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_sharded_wrap
  function rsh_sharded_from_tensors(comm, layout, n, parts, out) &
      bind(C, name="rsh_sharded_from_tensors") result(answer)
    import
    type(c_ptr), value :: comm
    type(c_ptr), value :: layout
    integer(c_int64_t), value :: n
    type(c_ptr), intent(in) :: parts(*)
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_sharded_from_tensors
  function rsh_sharded_scatter(comm, layout, root, whole, out) &
      bind(C, name="rsh_sharded_scatter") result(answer)
    import
    type(c_ptr), value :: comm
    type(c_ptr), value :: layout
    integer(c_int), value :: root
    type(c_ptr), value :: whole
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_sharded_scatter
  subroutine rsh_sharded_free(s) &
      bind(C, name="rsh_sharded_free")
    import
    type(c_ptr), value :: s
  end subroutine rsh_sharded_free
  function rsh_sharded_layout(s) &
      bind(C, name="rsh_sharded_layout") result(answer)
    import
    type(c_ptr), value :: s
    type(c_ptr) :: answer
  end function rsh_sharded_layout
  function rsh_sharded_comm(s) &
      bind(C, name="rsh_sharded_comm") result(answer)
    import
    type(c_ptr), value :: s
    type(c_ptr) :: answer
  end function rsh_sharded_comm
  function rsh_sharded_nparts(s) &
      bind(C, name="rsh_sharded_nparts") result(answer)
    import
    type(c_ptr), value :: s
    integer(c_int64_t) :: answer
  end function rsh_sharded_nparts
  function rsh_sharded_part(s, part) &
      bind(C, name="rsh_sharded_part") result(answer)
    import
    type(c_ptr), value :: s
    integer(c_int64_t), value :: part
    type(c_ptr) :: answer
  end function rsh_sharded_part
  function rsh_plan_opts_from_comm(comm, opts) &
      bind(C, name="rsh_plan_opts_from_comm") result(answer)
    import
    type(c_ptr), value :: comm
    type(rsh_plan_opts), intent(inout) :: opts
    integer(c_int) :: answer
  end function rsh_plan_opts_from_comm
  function rsh_reshard(src, to, opts, out) &
      bind(C, name="rsh_reshard") result(answer)
    import
    type(c_ptr), value :: src
    type(c_ptr), value :: to
    type(c_ptr), value :: opts
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_reshard
  function rsh_reshard_into(src, dst, opts) &
      bind(C, name="rsh_reshard_into") result(answer)
    import
    type(c_ptr), value :: src
    type(c_ptr), value :: dst
    type(c_ptr), value :: opts
    integer(c_int) :: answer
  end function rsh_reshard_into
  function rsh_reshard_many(n, src, to, opts, out) &
      bind(C, name="rsh_reshard_many") result(answer)
    import
    integer(c_int64_t), value :: n
    type(c_ptr), intent(in) :: src(*)
    type(c_ptr), intent(in) :: to(*)
    type(c_ptr), value :: opts
    type(c_ptr), intent(inout) :: out(*)
    integer(c_int) :: answer
  end function rsh_reshard_many
  function rsh_reshard_begin(src, to, opts, out) &
      bind(C, name="rsh_reshard_begin") result(answer)
    import
    type(c_ptr), value :: src
    type(c_ptr), value :: to
    type(c_ptr), value :: opts
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_reshard_begin
  function rsh_transit_test(t, done) &
      bind(C, name="rsh_transit_test") result(answer)
    import
    type(c_ptr), value :: t
    logical(c_bool), intent(inout) :: done
    integer(c_int) :: answer
  end function rsh_transit_test
  function rsh_transit_wait(t, out) &
      bind(C, name="rsh_transit_wait") result(answer)
    import
    type(c_ptr), value :: t
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_transit_wait
  subroutine rsh_transit_free(t) &
      bind(C, name="rsh_transit_free")
    import
    type(c_ptr), value :: t
  end subroutine rsh_transit_free
  function rsh_comm_get_cache_stats(comm, out) &
      bind(C, name="rsh_comm_get_cache_stats") result(answer)
    import
    type(c_ptr), value :: comm
    type(rsh_cache_stats), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_comm_get_cache_stats
  function rsh_sharded_gather(src, root, whole) &
      bind(C, name="rsh_sharded_gather") result(answer)
    import
    type(c_ptr), value :: src
    integer(c_int), value :: root
    type(c_ptr), value :: whole
    integer(c_int) :: answer
  end function rsh_sharded_gather
  function rsh_sharded_digest(s, out) &
      bind(C, name="rsh_sharded_digest") result(answer)
    import
    type(c_ptr), value :: s
    type(rsh_digest), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_sharded_digest
  subroutine rsh_digest_text(d, text) &
      bind(C, name="rsh_digest_text")
    import
    type(rsh_digest), value :: d
    character(kind=c_char), intent(inout) :: text(*)
  end subroutine rsh_digest_text
  function rsh_digest_parse(text, out) &
      bind(C, name="rsh_digest_parse") result(answer)
    import
    character(kind=c_char), intent(in) :: text(*)
    type(rsh_digest), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_digest_parse
  function rsh_digest_local(layout, parts, out) &
      bind(C, name="rsh_digest_local") result(answer)
    import
    type(c_ptr), value :: layout
    type(c_ptr), value :: parts
    type(rsh_digest), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_digest_local
  function rsh_digest_begin(dtype, ndim, shape, out) &
      bind(C, name="rsh_digest_begin") result(answer)
    import
    character(kind=c_char), intent(in) :: dtype(*)
    integer(c_int), value :: ndim
    integer(c_int64_t), intent(in) :: shape(*)
    type(rsh_digest), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_digest_begin
  function rsh_digest_add(d, itemsize, data, n, first) &
      bind(C, name="rsh_digest_add") result(answer)
    import
    type(rsh_digest), intent(inout) :: d
    integer(c_size_t), value :: itemsize
    type(c_ptr), value :: data
    integer(c_int64_t), value :: n
    integer(c_int64_t), value :: first
    integer(c_int) :: answer
  end function rsh_digest_add
  function rsh_digest_add_box(d, itemsize, ndim, shape, offsets, sizes, data, strides) &
      bind(C, name="rsh_digest_add_box") result(answer)
    import
    type(rsh_digest), intent(inout) :: d
    integer(c_size_t), value :: itemsize
    integer(c_int), value :: ndim
    integer(c_int64_t), intent(in) :: shape(*)
    integer(c_int64_t), intent(in) :: offsets(*)
    integer(c_int64_t), intent(in) :: sizes(*)
    type(c_ptr), value :: data
    integer(c_int64_t), intent(in) :: strides(*)
    integer(c_int) :: answer
  end function rsh_digest_add_box
  subroutine rsh_digest_merge(d, other) &
      bind(C, name="rsh_digest_merge")
    import
    type(rsh_digest), intent(inout) :: d
    type(rsh_digest), value :: other
  end subroutine rsh_digest_merge
  function rsh_exec_bind(plan, comm, src, dst, out) &
      bind(C, name="rsh_exec_bind") result(answer)
    import
    type(c_ptr), value :: plan
    type(c_ptr), value :: comm
    type(c_ptr), value :: src
    type(c_ptr), value :: dst
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_exec_bind
  function rsh_exec_run(e) &
      bind(C, name="rsh_exec_run") result(answer)
    import
    type(c_ptr), value :: e
    integer(c_int) :: answer
  end function rsh_exec_run
  function rsh_exec_begin(e) &
      bind(C, name="rsh_exec_begin") result(answer)
    import
    type(c_ptr), value :: e
    integer(c_int) :: answer
  end function rsh_exec_begin
  function rsh_exec_test(e, done) &
      bind(C, name="rsh_exec_test") result(answer)
    import
    type(c_ptr), value :: e
    logical(c_bool), intent(inout) :: done
    integer(c_int) :: answer
  end function rsh_exec_test
  function rsh_exec_wait(e) &
      bind(C, name="rsh_exec_wait") result(answer)
    import
    type(c_ptr), value :: e
    integer(c_int) :: answer
  end function rsh_exec_wait
  function rsh_exec_run_on(e, src, dst) &
      bind(C, name="rsh_exec_run_on") result(answer)
    import
    type(c_ptr), value :: e
    type(c_ptr), value :: src
    type(c_ptr), value :: dst
    integer(c_int) :: answer
  end function rsh_exec_run_on
  subroutine rsh_exec_free(e) &
      bind(C, name="rsh_exec_free")
    import
    type(c_ptr), value :: e
  end subroutine rsh_exec_free
  function rsh_exec_get_stats(e, out) &
      bind(C, name="rsh_exec_get_stats") result(answer)
    import
    type(c_ptr), value :: e
    type(rsh_exec_stats), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_exec_get_stats
  function rsh_plan_run_local(plan, pool, src, dst) &
      bind(C, name="rsh_plan_run_local") result(answer)
    import
    type(c_ptr), value :: plan
    type(c_ptr), value :: pool
    type(c_ptr), value :: src
    type(c_ptr), value :: dst
    integer(c_int) :: answer
  end function rsh_plan_run_local
  function rsh_local_exec_bind(plan, pool, src, dst, out) &
      bind(C, name="rsh_local_exec_bind") result(answer)
    import
    type(c_ptr), value :: plan
    type(c_ptr), value :: pool
    type(c_ptr), value :: src
    type(c_ptr), value :: dst
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_local_exec_bind
  function rsh_local_exec_run(l) &
      bind(C, name="rsh_local_exec_run") result(answer)
    import
    type(c_ptr), value :: l
    integer(c_int) :: answer
  end function rsh_local_exec_run
  subroutine rsh_local_exec_free(l) &
      bind(C, name="rsh_local_exec_free")
    import
    type(c_ptr), value :: l
  end subroutine rsh_local_exec_free
  function rsh_ckpt_rules_parse(text, name, out) &
      bind(C, name="rsh_ckpt_rules_parse") result(answer)
    import
    character(kind=c_char), intent(in) :: text(*)
    character(kind=c_char), intent(in) :: name(*)
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_ckpt_rules_parse
  function rsh_ckpt_rules_read(path, out) &
      bind(C, name="rsh_ckpt_rules_read") result(answer)
    import
    character(kind=c_char), intent(in) :: path(*)
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_ckpt_rules_read
  subroutine rsh_ckpt_rules_free(r) &
      bind(C, name="rsh_ckpt_rules_free")
    import
    type(c_ptr), value :: r
  end subroutine rsh_ckpt_rules_free
  function rsh_ckpt_rules_layout(rules, name, dtype, ndim, shape, out) &
      bind(C, name="rsh_ckpt_rules_layout") result(answer)
    import
    type(c_ptr), value :: rules
    character(kind=c_char), intent(in) :: name(*)
    integer(c_int), value :: dtype
    integer(c_int), value :: ndim
    integer(c_int64_t), intent(in) :: shape(*)
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_ckpt_rules_layout
  function rsh_ckpt_open(path, from, out) &
      bind(C, name="rsh_ckpt_open") result(answer)
    import
    character(kind=c_char), intent(in) :: path(*)
    type(c_ptr), value :: from
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_ckpt_open
  subroutine rsh_ckpt_free(c) &
      bind(C, name="rsh_ckpt_free")
    import
    type(c_ptr), value :: c
  end subroutine rsh_ckpt_free
  function rsh_ckpt_kind(c) &
      bind(C, name="rsh_ckpt_kind") result(answer)
    import
    type(c_ptr), value :: c
    type(c_ptr) :: answer
  end function rsh_ckpt_kind
  function rsh_ckpt_ntensors(c) &
      bind(C, name="rsh_ckpt_ntensors") result(answer)
    import
    type(c_ptr), value :: c
    integer(c_int64_t) :: answer
  end function rsh_ckpt_ntensors
  function rsh_ckpt_get_tensor(c, i, out) &
      bind(C, name="rsh_ckpt_get_tensor") result(answer)
    import
    type(c_ptr), value :: c
    integer(c_int64_t), value :: i
    type(rsh_ckpt_entry), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_ckpt_get_tensor
  function rsh_ckpt_find(c, name) &
      bind(C, name="rsh_ckpt_find") result(answer)
    import
    type(c_ptr), value :: c
    character(kind=c_char), intent(in) :: name(*)
    integer(c_int64_t) :: answer
  end function rsh_ckpt_find
  function rsh_ckpt_nfiles(c) &
      bind(C, name="rsh_ckpt_nfiles") result(answer)
    import
    type(c_ptr), value :: c
    integer(c_int64_t) :: answer
  end function rsh_ckpt_nfiles
  function rsh_ckpt_get_file(c, i, name, bytes) &
      bind(C, name="rsh_ckpt_get_file") result(answer)
    import
    type(c_ptr), value :: c
    integer(c_int64_t), value :: i
    type(c_ptr), intent(inout) :: name
    integer(c_int64_t), intent(inout) :: bytes
    integer(c_int) :: answer
  end function rsh_ckpt_get_file
  function rsh_ckpt_nmeta(c) &
      bind(C, name="rsh_ckpt_nmeta") result(answer)
    import
    type(c_ptr), value :: c
    integer(c_int64_t) :: answer
  end function rsh_ckpt_nmeta
  function rsh_ckpt_get_meta(c, i, key, value) &
      bind(C, name="rsh_ckpt_get_meta") result(answer)
    import
    type(c_ptr), value :: c
    integer(c_int64_t), value :: i
    type(c_ptr), intent(inout) :: key
    type(c_ptr), intent(inout) :: value
    integer(c_int) :: answer
  end function rsh_ckpt_get_meta
  function rsh_ckpt_nnon_tensors(c) &
      bind(C, name="rsh_ckpt_nnon_tensors") result(answer)
    import
    type(c_ptr), value :: c
    integer(c_int64_t) :: answer
  end function rsh_ckpt_nnon_tensors
  function rsh_ckpt_get_non_tensor(c, i, name, what) &
      bind(C, name="rsh_ckpt_get_non_tensor") result(answer)
    import
    type(c_ptr), value :: c
    integer(c_int64_t), value :: i
    type(c_ptr), intent(inout) :: name
    type(c_ptr), intent(inout) :: what
    integer(c_int) :: answer
  end function rsh_ckpt_get_non_tensor
  function rsh_ckpt_read(c, tensor, box, to) &
      bind(C, name="rsh_ckpt_read") result(answer)
    import
    type(c_ptr), value :: c
    integer(c_int64_t), value :: tensor
    type(c_ptr), value :: box
    type(c_ptr), value :: to
    integer(c_int) :: answer
  end function rsh_ckpt_read
  function rsh_ckpt_map(c, map, out) &
      bind(C, name="rsh_ckpt_map") result(answer)
    import
    type(c_ptr), value :: c
    type(c_ptr), value :: map
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_ckpt_map
  function rsh_ckpt_rules_reverse(map, c, out) &
      bind(C, name="rsh_ckpt_rules_reverse") result(answer)
    import
    type(c_ptr), value :: map
    type(c_ptr), value :: c
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_ckpt_rules_reverse
  function rsh_ckpt_convert(source, target, opts, report) &
      bind(C, name="rsh_ckpt_convert") result(answer)
    import
    character(kind=c_char), intent(in) :: source(*)
    character(kind=c_char), intent(in) :: target(*)
    type(c_ptr), value :: opts
    type(rsh_convert_report), intent(inout) :: report
    integer(c_int) :: answer
  end function rsh_ckpt_convert
  function rsh_convert_preview(source, target, opts, fn, ctx, report) &
      bind(C, name="rsh_convert_preview") result(answer)
    import
    character(kind=c_char), intent(in) :: source(*)
    character(kind=c_char), intent(in) :: target(*)
    type(c_ptr), value :: opts
    type(c_funptr), value :: fn
    type(c_ptr), value :: ctx
    type(rsh_convert_report), intent(inout) :: report
    integer(c_int) :: answer
  end function rsh_convert_preview
  function rsh_ckpt_save(comm, path, n, names, tensors, opts) &
      bind(C, name="rsh_ckpt_save") result(answer)
    import
    type(c_ptr), value :: comm
    character(kind=c_char), intent(in) :: path(*)
    integer(c_int64_t), value :: n
    type(c_ptr), intent(in) :: names(*)
    type(c_ptr), intent(in) :: tensors(*)
    type(c_ptr), value :: opts
    integer(c_int) :: answer
  end function rsh_ckpt_save
  function rsh_ckpt_load(c, comm, n, names, tensors, stats) &
      bind(C, name="rsh_ckpt_load") result(answer)
    import
    type(c_ptr), value :: c
    type(c_ptr), value :: comm
    integer(c_int64_t), value :: n
    type(c_ptr), intent(in) :: names(*)
    type(c_ptr), intent(inout) :: tensors(*)
    type(rsh_load_stats), intent(inout) :: stats
    integer(c_int) :: answer
  end function rsh_ckpt_load
  function rsh_ckpt_compare(a, b, opts, out) &
      bind(C, name="rsh_ckpt_compare") result(answer)
    import
    type(c_ptr), value :: a
    type(c_ptr), value :: b
    type(c_ptr), value :: opts
    type(rsh_ckpt_difference), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_ckpt_compare
  function rsh_mpi_open(out) &
      bind(C, name="rsh_mpi_open") result(answer)
    import
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_mpi_open
  function rsh_mpi_close(comm) &
      bind(C, name="rsh_mpi_close") result(answer)
    import
    type(c_ptr), value :: comm
    integer(c_int) :: answer
  end function rsh_mpi_close
  function rsh_comm_mpi_f(comm, out) &
      bind(C, name="rsh_comm_mpi_f") result(answer)
    import
    integer(c_int), value :: comm
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_comm_mpi_f
  function rsh_comm_mpi_kept_f(comm, out) &
      bind(C, name="rsh_comm_mpi_kept_f") result(answer)
    import
    integer(c_int), value :: comm
    type(c_ptr), intent(inout) :: out
    integer(c_int) :: answer
  end function rsh_comm_mpi_kept_f
  function rsh_mpi_check(family) &
      bind(C, name="rsh_mpi_check") result(answer)
    import
    character(kind=c_char), intent(in) :: family(*)
    integer(c_int) :: answer
  end function rsh_mpi_check
end interface
