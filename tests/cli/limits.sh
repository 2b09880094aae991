# If a limit of the shell is exceeded, the error names it and says what to do; no files are left.
head -c 1048576 /dev/zero > in
from='u8[1024/x, 1024] on x=4' to='u8[1024, 1024/x] on x=4'
(ulimit -f 100; reshard apply "$from" "$to" --in in --out out); echo "exit $?"
(ulimit -f 100; reshard explain "$from" "$to" --json > /dev/null); echo "exit $?"
ls
