! Module reshard: the interfaces of reshard.f03, and wrappers for strings and errors.
!
! Module files are not portable between compilers, so this source is installed: compile it with your compiler.
module reshard
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  implicit none
  include 'reshard.f03'

  interface
    function rsh_fortran_strlen(string) bind(C, name="strlen") result(answer)
      import
      type(c_ptr), value :: string
      integer(c_size_t) :: answer
    end function rsh_fortran_strlen
  end interface
  private :: rsh_fortran_strlen, error_unit

contains

  ! Converts a text for C: without trailing blanks, terminated by NUL.
  function rsh_c_text(text) result(ended)
    character(len=*), intent(in) :: text
    character(len=:), allocatable :: ended
    ended = trim(text) // c_null_char
  end function rsh_c_text

  ! Converts a C string to a text; '' for NULL.
  function rsh_text(string) result(text)
    type(c_ptr), intent(in) :: string
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: bytes(:)
    integer :: i, length
    length = 0
    if (c_associated(string)) length = int(rsh_fortran_strlen(string))
    allocate(character(len=length) :: text)
    if (length == 0) return
    call c_f_pointer(string, bytes, [length])
    do i = 1, length
      text(i:i) = bytes(i)
    end do
  end function rsh_text

  ! Stops the program with the library's message if a call failed.
  subroutine rsh_check(status)
    integer(c_int), intent(in) :: status
    if (status == RSH_OK) return
    write (error_unit, '(a)') 'reshard: ' // rsh_text(rsh_status_text(status)) // ': ' // rsh_text(rsh_error_detail())
    error stop 1
  end subroutine rsh_check

  ! Returns a layout from its text; stops the program if the text is invalid.  Free it with rsh_layout_free.
  function rsh_layout_from(text) result(layout)
    character(len=*), intent(in) :: text
    type(c_ptr) :: layout
    layout = c_null_ptr
    call rsh_check(rsh_layout_parse(rsh_c_text(text), layout))
  end function rsh_layout_from

end module reshard
