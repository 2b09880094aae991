! Pencils: the transpose of a 3-D FFT, x-pencils to y-pencils and back, in Fortran under MPI.
!
!   mpirun -n 4 pencils
!
! The array of x-pencils has a ghost layer around it.  The ghost layer is not moved, because the strides
! of the memory skip it.
program pencils
  use mpi
  use reshard
  implicit none
  integer, parameter :: nx = 24, ny = 20, nz = 18
  complex(c_double_complex), allocatable, target :: u(:,:,:), v(:,:,:)
  integer(c_int64_t), target :: ustrides(3)
  type(rsh_memory), target :: in_x, in_y
  type(rsh_part) :: xpart, ypart
  type(c_ptr) :: comm, xlayout, ylayout, plan, back, to_y, to_x
  integer(c_int64_t) :: xfirst(3), yfirst(3)
  integer(c_int64_t) :: rank
  integer :: ierr, ranks, p
  character(len=100) :: mesh

  call MPI_Init(ierr)
  call rsh_check(rsh_comm_mpi_f(MPI_COMM_WORLD, comm))
  rank = rsh_comm_rank(comm)
  ranks = rsh_comm_size(comm)
  p = merge(2, 1, mod(ranks, 2) == 0)

  ! Dims are x, y, z as in Fortran; order(2,1,0) means that x varies fastest in memory.
  write (mesh, '(a,i0,a,i0,a)') '] on p=', p, ',q=', ranks / p, ' order(2,1,0)'
  xlayout = rsh_layout_from('c128[24, 20/p~, 18/q~' // mesh)
  ylayout = rsh_layout_from('c128[24/p~, 20, 18/q~' // mesh)
  call rsh_check(rsh_layout_part(xlayout, rank, 0_c_int64_t, xpart))
  call rsh_check(rsh_layout_part(ylayout, rank, 0_c_int64_t, ypart))
  call rsh_check(rsh_layout_global_index(xlayout, rank, 0_c_int64_t, 0_c_int64_t, xfirst))
  call rsh_check(rsh_layout_global_index(ylayout, rank, 0_c_int64_t, 0_c_int64_t, yfirst))

  allocate(u(0:nx + 1, 0:xpart%shape(2) + 1, 0:xpart%shape(3) + 1))
  allocate(v(ypart%shape(1), ypart%shape(2), ypart%shape(3)))
  ustrides = [1_c_int64_t, int(size(u, 1), c_int64_t), int(size(u, 1), c_int64_t) * size(u, 2)]
  in_x = rsh_memory(c_loc(u(1, 1, 1)), c_loc(ustrides))
  in_y = rsh_memory(c_loc(v), c_null_ptr)

  call rsh_check(rsh_plan_new(xlayout, ylayout, c_null_ptr, plan))
  call rsh_check(rsh_plan_new(ylayout, xlayout, c_null_ptr, back))
  call rsh_check(rsh_exec_bind(plan, comm, c_loc(in_x), c_loc(in_y), to_y))
  call rsh_check(rsh_exec_bind(back, comm, c_loc(in_y), c_loc(in_x), to_x))

  u = (-1, 0)
  call each_x(.true.)
  call rsh_check(rsh_exec_run(to_y))
  call each_y()
  u = (-1, 0)
  call rsh_check(rsh_exec_run(to_x))
  call each_x(.false.)
  if (u(0, 0, 0) /= (-1, 0) .or. u(nx + 1, 1, 1) /= (-1, 0)) error stop 'a ghost cell was written'
  if (rank == 0) print '(a)', 'x-pencils became y-pencils and came back'

  call rsh_exec_free(to_x)
  call rsh_exec_free(to_y)
  call rsh_plan_free(back)
  call rsh_plan_free(plan)
  call rsh_layout_free(ylayout)
  call rsh_layout_free(xlayout)
  call rsh_check(rsh_comm_free(comm))
  call MPI_Finalize(ierr)

contains

  ! The value of an element is its position in the global array.
  pure function value_at(i, j, k, first) result(value)
    integer, intent(in) :: i, j, k
    integer(c_int64_t), intent(in) :: first(3)
    complex(c_double_complex) :: value
    value = cmplx((first(3) + k - 1) * nx * ny + (first(2) + j - 1) * nx + first(1) + i - 1, 1, c_double_complex)
  end function value_at

  subroutine each_x(write)
    logical, intent(in) :: write
    integer :: i, j, k
    do k = 1, int(xpart%shape(3))
      do j = 1, int(xpart%shape(2))
        do i = 1, int(xpart%shape(1))
          if (write) u(i, j, k) = value_at(i, j, k, xfirst)
          if (u(i, j, k) /= value_at(i, j, k, xfirst)) error stop 'an x-pencil is wrong'
        end do
      end do
    end do
  end subroutine each_x

  subroutine each_y()
    integer :: i, j, k
    do k = 1, int(ypart%shape(3))
      do j = 1, int(ypart%shape(2))
        do i = 1, int(ypart%shape(1))
          if (v(i, j, k) /= value_at(i, j, k, yfirst)) error stop 'a y-pencil is wrong'
        end do
      end do
    end do
  end subroutine each_y

end program pencils
