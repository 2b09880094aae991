! Checkpoint: saves a Fortran matrix as safetensors and reads it back in another storage order.
!
!   checkpoint [DIRECTORY]         the directory must not exist; it is kept
program checkpoint
  use reshard
  implicit none
  integer, parameter :: rows = 100, columns = 60
  real(c_double), target :: matrix(rows, columns), copy(columns, rows)
  character(len=7), target :: name = 'matrix' // c_null_char
  type(rsh_memory), target :: memory
  type(rsh_ckpt_entry) :: entry
  type(rsh_load_stats) :: stats
  type(c_ptr) :: comms(1), saved(1), loaded(1), names(1), by_columns, by_rows, file
  character(len=200) :: path
  integer :: i, j

  path = 'matrix.ckpt'
  if (command_argument_count() > 0) call get_command_argument(1, path)
  do j = 1, columns
    do i = 1, rows
      matrix(i, j) = i + rows * (j - 1)
    end do
  end do

  ! Fortran stores columns one after the other: order(1,0).
  call rsh_check(rsh_comm_threads(1, comms))
  by_columns = rsh_layout_from('f64[100, 60] order(1,0)')
  memory = rsh_memory(c_loc(matrix), c_null_ptr)
  call rsh_check(rsh_sharded_wrap(comms(1), by_columns, c_loc(memory), saved(1)))
  names(1) = c_loc(name)
  call rsh_check(rsh_ckpt_save(comms(1), rsh_c_text(path), 1_c_int64_t, names, saved, c_null_ptr))

  ! In a row-major layout the same matrix is its transpose for Fortran.
  by_rows = rsh_layout_from('f64[100, 60]')
  memory = rsh_memory(c_loc(copy), c_null_ptr)
  call rsh_check(rsh_sharded_wrap(comms(1), by_rows, c_loc(memory), loaded(1)))
  call rsh_check(rsh_ckpt_open(rsh_c_text(path), c_null_ptr, file))
  call rsh_check(rsh_ckpt_get_tensor(file, 0_c_int64_t, entry))
  call rsh_check(rsh_ckpt_load(file, comms(1), 1_c_int64_t, names, loaded, stats))
  if (any(copy /= transpose(matrix))) error stop 'the matrix came back changed'
  print '(a,a,a,i0,a)', 'saved and loaded "', rsh_text(entry%name), '": ', stats%bytes_read, ' bytes'

  call rsh_ckpt_free(file)
  call rsh_sharded_free(loaded(1))
  call rsh_sharded_free(saved(1))
  call rsh_layout_free(by_rows)
  call rsh_layout_free(by_columns)
  call rsh_check(rsh_comm_free(comms(1)))
end program checkpoint
